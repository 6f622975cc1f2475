"""What members say to each other survives the wire, and who listens for whom."""

from __future__ import annotations

import json

import pytest

from jetq.errors import MembersUnfit
from jetq.launch.prepare import Hello, Reach, in_order, listened_for, peers_of, shared
from tests.unit.launch.hellos import hello


def over_the_wire(value):
    return type(value).from_json(json.loads(json.dumps(value.as_json())))


@pytest.mark.parametrize(
    "value",
    [
        hello(0),
        hello(3, open_mpi=None, torch=None, disk_free_bytes=None, refusals=("no disk", "no luck"), slots=0.5, nics=()),
        Reach(1),
        Reach(2, {0: ("10.0.0.1", "fd00::1"), 11: ()}, shared=True),
    ],
)
def test_what_is_said_arrives_as_it_was(value):
    assert over_the_wire(value) == value


def test_a_field_of_a_newer_version_is_ignored_and_a_missing_one_is_not():
    newer = {**hello(1).as_json(), "mood": "fine", "nics": [{**hello(1).nics[0].as_json(), "speed": 10}]}

    assert Hello.from_json(newer).nics == hello(1).nics[:1]
    for name in hello(1).as_json():
        with pytest.raises(MembersUnfit, match=f"has no {name}; run one version of jetq on all nodes"):
            Hello.from_json({key: value for key, value in newer.items() if key != name})


@pytest.mark.parametrize(
    ("kind", "name", "bad"),
    [
        (Hello, "index", "0"),
        (Hello, "index", True),
        (Hello, "slots", "4"),
        (Hello, "nics", [["eth0", "10.0.0.1"]]),
        (Hello, "nics", [{"interface": "eth0"}]),
        (Hello, "nics", [{"interface": "eth0", "address": "10.0.0.1", "network": "10.0.0.0/24", "first": 1}]),
        (Hello, "refusals", "none"),
        (Hello, "open_mpi", 4.5),
        (Hello, "torch", 2),
        (Reach, "heard", []),
        (Reach, "heard", {"x": []}),
        (Reach, "heard", {"1": "10.0.0.1"}),
        (Reach, "shared", 1),
    ],
)
def test_nonsense_is_refused_by_name(kind, name, bad):
    plain = (hello(0) if kind is Hello else Reach(0)).as_json()

    with pytest.raises(MembersUnfit, match=f"{kind.__name__} has a bad {name}"):
        kind.from_json({**plain, name: bad})
    with pytest.raises(MembersUnfit, match="no JSON object"):
        kind.from_json([plain])


def test_up_to_sixteen_all_listen_for_all():
    assert peers_of(2, 4) == (0, 1, 3)
    assert peers_of(0, 1) == ()
    assert len(peers_of(0, 16)) == 15


def test_more_listen_for_their_neighbours_and_the_head():
    assert peers_of(0, 17) == (1, 16)
    assert peers_of(8, 17) == (0, 7, 9)
    assert peers_of(16, 17) == (0, 15)
    for count in (2, 16, 17, 1024):
        assert {peer for index in range(count) for peer in peers_of(index, count)} == set(range(count))


def test_nobody_listens_for_its_own_machine():
    gang = [hello(0, place="a"), hello(1, place="a"), hello(2)]

    assert [peer.index for peer in listened_for(0, gang)] == [2]
    assert [peer.index for peer in listened_for(2, gang[::-1])] == [0, 1]


@pytest.mark.parametrize("indices", [(), (1,), (0, 2), (0, 0, 1)])
def test_a_gang_that_is_not_whole_is_refused(indices):
    with pytest.raises(MembersUnfit, match="no whole gang"):
        in_order([hello(index) for index in indices])


def test_checkpoints_are_shared_if_all_have_read():
    assert shared([Reach(0, shared=True), Reach(1, shared=True)])
    assert not shared([Reach(0, shared=True), Reach(1)])
    assert not shared([])
