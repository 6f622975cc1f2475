"""What a stream may be: what is refused, and when two are the same."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.errors import PublishRefused, UsageError
from jetq.model.credentials import Secret
from jetq.model.stream import MOST_DEPTH, MOST_WORDS, StreamSpec, changes, wish

WHOLE = {
    "uri": "rtsp://admin:s3cret@cam/1",
    "analyzer": "yard.gates:Count",
    "options": {"line": [0.1, 0.9], "deep": {"a": None}},
    "fps": 15,
    "hot_fps": [10, 5],
    "cost": 0.5,
    "size": "1280x720",
    "labels": ["zone=yard", "arch=aarch64", "zone=yard"],
    "node": "orin-2",
    "gpu": 1,
    "mem_bytes": 1 << 30,
    "sinks": ["jsonl", "mp4", "webhook:https://u:h00k@hook/x?token=abc"],
    "stall_s": 20,
}


def test_a_spec_crosses_the_wire_and_stays_the_same_without_its_credentials():
    spec, secrets = wish(WHOLE)

    plain = json.dumps(spec.as_json())
    assert StreamSpec.from_json(json.loads(plain)) == spec
    assert secrets == {
        "rtsp://***@cam/1": Secret("admin", "s3cret"),
        "https://***@hook/x?token=***": Secret("u", "h00k", ("abc",)),
    }
    assert not any(word in plain + repr(spec) + repr(secrets) for word in ("s3cret", "h00k", "abc"))
    assert spec.required == ("arch=aarch64", "node=orin-2", "video", "zone=yard")
    assert spec.needs(0.5).gpu == 1


def deep(levels: int) -> list:
    """Return lists in lists."""
    found: list = []
    for _ in range(levels - 1):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"fps": 0}, "fps must be a number above 0, up to 240, not 0"),
        ({"fps": 1000}, "not 1000"),
        ({"fps": float("nan")}, "not nan"),
        ({"fps": True}, "not True"),
        ({"fps": 10**400}, "fps must be a number"),
        ({"hot_fps": [10, 12]}, "goes down from fps"),
        ({"fps": 5, "hot_fps": [5]}, "goes down from fps"),
        ({"hot_fps": 5}, "list of numbers"),
        ({"analyzer": "motoin"}, "did you mean 'motion'"),
        ({"analyzer": ""}, "no analyzer is called ''"),
        ({"analyzer": "os:system()"}, "Own ones are named module:Class"),
        ({"options": [1]}, "options must map"),
        ({"options": {"x": {1}}}, "values that JSON has"),
        ({"options": {"x": float("inf")}}, "values that JSON has"),
        ({"options": {"x": "y" * 70_000}}, "65536 is the most"),
        ({"options": {"x": "\ud800"}}, "values that JSON has"),
        ({"options": {"x": deep(MOST_DEPTH)}}, "nested too deeply; 32 levels"),
        ({"options": {"x": deep(100_000)}}, "nested too deeply"),
        ({"hot_fps": [100 - n for n in range(MOST_WORDS + 1)]}, "hot_fps has more than 64 steps"),
        ({"hot_fps": count(1)}, "hot_fps has more than 64 steps"),
        ({"labels": [f"l{n}" for n in range(MOST_WORDS + 1)]}, "labels are more than 64"),
        ({"sinks": [f"webhook:http://h/{n}" for n in range(MOST_WORDS + 1)]}, "sinks are more than 64"),
        ({"cost": 0}, "cost must be a number of slots above 0"),
        ({"cost": 10**400}, "cost must be"),
        ({"size": "big"}, "a size is WIDTHxHEIGHT"),
        ({"size": 3}, "size must be"),
        ({"labels": "zone=yard"}, "labels must be a list"),
        ({"labels": ["a b"]}, "no label"),
        ({"node": "a b"}, "cannot name a node"),
        ({"node": 3}, "node must be a node's name, not 3"),
        ({"gpu": 2}, "gpu must be 0 or 1"),
        ({"mem_bytes": -1}, "mem_bytes"),
        ({"sinks": ["ftp:x"]}, "a sink is jsonl, mp4 or webhook:URL"),
        ({"sinks": ["webhook:x"]}, "a webhook needs an address"),
        ({"sinks": ["jsonl:x"]}, "takes nothing after it"),
        ({"loop": True}, "only a file"),
        ({"loop": "yes"}, "true or false"),
        ({"stall_s": 0.5}, "stall_s must be from 1 to 3600"),
        ({"uri": "v4l2:/dev/video0"}, "hangs on one machine: name it"),
        ({"uri": "csi:0"}, "hangs on one machine: name it"),
        ({"frames": 5}, "no field 'frames'; did you mean"),
    ],
)
def test_what_is_wrong_is_named(fields, says):
    with pytest.raises(UsageError, match=says):
        wish({"uri": "rtsp://cam/1"} | fields)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from([f.name for f in fields(StreamSpec)]), _JSON)
def test_whatever_a_field_holds_it_is_taken_or_refused(name, value):
    plain = {"uri": "rtsp://cam/1", name: value}

    try:
        spec, _ = wish(plain)
    except UsageError:
        return
    assert StreamSpec.from_json(json.loads(json.dumps(spec.as_json(), allow_nan=False))) == spec


@pytest.mark.parametrize("plain", [None, [], "rtsp://cam/1", {}, {"analyzer": "motion"}])
def test_a_spec_without_a_camera_is_none(plain):
    with pytest.raises(UsageError):
        wish(plain)


def test_a_spec_takes_no_credentials():
    with pytest.raises(UsageError, match="kept apart"):
        StreamSpec("rtsp://a:s3cret@cam/1")
    with pytest.raises(UsageError, match="kept apart"):
        StreamSpec("rtsp://cam/1", sinks=("webhook:https://a:s3cret@hook/",))


def test_a_model_goes_only_where_it_can_be_run():
    spec, _ = wish({"uri": "rtsp://cam/1", "analyzer": "onnx"})

    assert spec.required == ("onnx", "video")


def test_a_local_camera_implies_its_node():
    spec, _ = wish({"uri": "v4l2:/dev/video0", "node": "orin-2"})

    assert spec.required == ("node=orin-2", "video")


def test_the_same_spec_is_the_same_stream_however_it_is_written():
    one, _ = wish({"uri": "RTSP://a:b@CAM/1", "fps": 15, "labels": ["y", "x"]})
    other, _ = wish({"uri": "rtsp://c:d@cam/1", "fps": 15.0, "labels": ["x", "y", "x"], "stall_s": 10})

    assert one == other
    assert changes("gate", one, other) == []


def test_what_differs_is_named():
    before = StreamSpec("rtsp://cam/1", fps=15, labels=("a",), options={"x": 1})
    after = replace(before, fps=10, labels=(), options={"x": 2}, sinks=("jsonl",))

    assert changes("gate", before, after) == [
        'options {"x": 1} -> {"x": 2}',
        "fps 15.0 -> 10.0",
        'labels ["a"] -> none',
        'sinks none -> ["jsonl"]',
    ]


def test_an_id_keeps_its_camera():
    with pytest.raises(PublishRefused, match=r"it is the stream of rtsp://cam/1; give rtsp://cam/2 another id"):
        changes("gate", StreamSpec("rtsp://cam/1"), StreamSpec("rtsp://cam/2"))
