"""Lists of cameras: read whole, or all that is wrong with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetq.errors import UsageError
from jetq.model.credentials import Secret
from jetq.video.cameras import cameras, read_cameras

TOML = """\
# The yard.
[defaults]
analyzer = "motion"
fps = 15
labels = ["zone=yard"]

[[stream]]
id = "gate"
uri = "rtsp://admin:s3cret@cam-1/1"

[[stream]]
id = "door"
uri = "v4l2:/dev/video0"
node = "orin-2"
fps = 5
sinks = ["jsonl"]
options = { threshold = 0.1 }
"""
CSV = """\
id, uri, analyzer, fps, labels, sinks, node, options
# The yard.
defaults,, motion, 15, zone=yard

gate, rtsp://admin:s3cret@cam-1/1
door, v4l2:/dev/video0,, 5,, jsonl, orin-2, "{""threshold"": 0.1}"
"""


@pytest.mark.parametrize(("kind", "text", "lines"), [("toml", TOML, [7, 11]), ("csv", CSV, [5, 6])])
def test_both_kinds_of_lists_say_the_same(kind, text, lines, tmp_path):
    path = tmp_path / f"yard.{kind}"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())

    gate, door = read_cameras(path)

    assert (gate.id, gate.spec.uri, gate.spec.fps, gate.spec.labels) == (
        "gate",
        "rtsp://***@cam-1/1",
        15,
        ("zone=yard",),
    )
    assert gate.secrets == {"rtsp://***@cam-1/1": Secret("admin", "s3cret")}
    assert (door.id, door.spec.fps, door.spec.sinks, dict(door.spec.options)) == (
        "door",
        5,
        ("jsonl",),
        {"threshold": 0.1},
    )
    assert [gate.line, door.line] == lines


def wrong(kind: str, text: str) -> dict[int, str]:
    """Return what is said of each line (0: of the list)."""
    with pytest.raises(UsageError) as caught:
        cameras(text, kind, "yard")
    assert "s3cret" not in str(caught.value)
    found: dict[int, str] = {}
    for part in re.split(r"; (?=yard)", str(caught.value)):
        number, why = re.fullmatch(r"yard(?::(\d+))?:? (.*)", part).groups()
        found[int(number or 0)] = why
    return found


def test_all_that_is_wrong_in_toml_is_named_with_its_line():
    said = wrong(
        "toml",
        """\
[[stream]]
id = "a"
uri = "rtsp://admin:s3cret@cam/1"
fps = 0
sinks = ["ftp"]

[[stream]]
id = "a"
uri = "rtmp://admin:s3cret@cam/1"
stall = 3

[[stream]]
uri = "csi:0"

[[stream]]
id = "file"
uri = "rtsp://cam/1"
loop = true
""",
    )

    assert {line: why.split(",")[0].split(":")[0] for line, why in said.items()} == {
        4: "fps must be a number above 0",
        5: "a sink is jsonl",
        8: "the id a is that of line 2 already",
        9: "jetq opens no rtmp",
        10: "a stream has no field 'stall'; did you mean stall_s?",
        12: "each stream needs an id (text)",
        15: "only a file has an end to begin again at",
    }


def test_all_that_is_wrong_in_csv_is_named_with_its_line():
    said = wrong(
        "csv",
        """\
id,uri,fps,options,loop
a,rtsp://admin:s3cret@cam/1,fast,
a,rtsp://cam/1,0,{
b,rtsp://cam/1,5,,maybe
c,rtsp://cam/1,5,,,extra
"d

-",rtsp://cam/1
e
""",
    )

    assert {line: re.split("[,:;]", why)[0] for line, why in said.items()} == {
        2: "fps must be a number above 0",
        3: "options cannot be '{'",
        4: "loop must be true or false",
        5: "the row has 6 cells for 5 columns",
        6: r"'d\n\n-' is no job id",
        9: "a stream needs the address of its camera",
    }


@pytest.mark.parametrize(
    ("kind", "text", "line", "says"),
    [
        ("toml", "[[stream]]\nid = 'a\n", 2, "this is no TOML"),
        ("toml", "[[stream]]\nid = [1,\n", 2, "this is no TOML"),
        ("toml", "[[camera]]\nid = 'a'\n", 1, r"no 'camera'; write \[defaults\] and \[\[stream\]\]"),
        ("toml", "stream = 3", 0, r"write \[defaults\] for what all share"),
        ("toml", "defaults = 3", 0, r"write \[defaults\] for what all share"),
        ("toml", "x = " + "[" * 5000, 0, "nested too deeply|this is no TOML"),
        ("toml", "[defaults]\nfsp = 3\n", 1, "did you mean fps"),
        ("toml", "[defaults]\nuri = 'csi:0'\n", 1, "each stream has its own uri"),
        ("toml", "", 0, "names no stream"),
        ("toml", "stream = [{id = 'a', uri = 'x:y'}]", 0, "stream 1: jetq opens no x:"),
        ("csv", "", 0, "is empty"),
        ("csv", "id,uri\n", 0, "names no stream"),
        ("csv", "uri,fps\nrtsp://cam/1,5\n", 1, "id among them"),
        ("csv", "id,id,uri\n", 1, "each once"),
        ("csv", "id,url\n", 1, "no column 'url'; did you mean uri"),
        ("csv", 'id,uri\na,"rtsp://cam/1\n', 2, "this is no CSV"),
        ("csv", "id,uri\na,rtsp://c/1\ndefaults,\n", 3, "stands once, before all others"),
        ("csv", "id,uri\ndefaults,rtsp://c/1\n", 2, "each stream has its own uri"),
    ],
)
def test_what_is_no_list_is_named(kind, text, line, says):
    with pytest.raises(UsageError, match=says) as caught:
        cameras(text, kind, "yard")

    assert line == 0 or f"yard:{line}:" in str(caught.value)


def test_a_list_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "latin.csv").write_bytes(b"id,uri\nt\xfcr,csi:0\n")
    (tmp_path / "cams.txt").write_text("")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    (tmp_path / "big.csv").write_bytes(b"x" * (5 << 20))

    for name, says in {
        "none.toml": "cannot be read: No such file",
        "latin.csv": "latin.csv:2: this is no UTF-8",
        "cams.txt": "must be named .toml or .csv",
        "big.csv": "more than 4 MiB",
        "endless.toml": "more than 4 MiB",
    }.items():
        with pytest.raises(UsageError, match=says):
            read_cameras(tmp_path / name)


def test_a_list_of_a_thousand_is_read_in_time():
    rows = "".join(f"c{n},rtsp://user:pw{n}@10.0.{n // 250}.{n % 250 + 1}/1,{n % 30 + 1}\n" for n in range(1000))

    assert len(cameras("id,uri,fps\n" + rows, "csv", "yard")) == 1000
