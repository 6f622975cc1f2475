"""What `jetq gang --dry-run` is made of."""

from __future__ import annotations

import pytest

from jetq.errors import MembersUnfit, NeverFits
from jetq.launch.preview import preview
from jetq.model.beat import NodeRow
from jetq.model.gang import GangSpec
from jetq.policy.timetable import Hold, Room
from jetq.policy.turns import QueuedGang


def row(name: str, address: str, slots: int = 2) -> NodeRow:
    return NodeRow(name, "up", slots, 0.0, 1.0, {}, 1.0, [], "pc", 0.1, {}, address=address)


ROWS = [row("a", "10.0.0.1"), row("b", "10.0.0.2"), row("c", "10.0.0.3")]
ROOMS = [Room(name, 2, mem_bytes=8 << 30) for name in "abc"]


def spec(**how: object) -> GangSpec:
    return GangSpec(("python", "train.py"), **{"min_nodes": 2, "max_nodes": 2, **how})  # type: ignore[arg-type]


def test_a_gang_that_fits_would_start_now():
    seen = preview(spec(), ROOMS, ROWS, [], 100.0)

    assert (seen.waits, len(seen.nodes)) == ("", 2)
    assert [start.node for start in seen.plan.starts] == list(seen.nodes)
    assert f"{seen.addresses[0]}:29500" in seen.plan.starts[1].argv
    assert seen.as_json()["starts_now"] is True
    assert "the port is leased then" in seen.notes[0]


def test_a_range_takes_the_nodes_that_are_free():
    busy = Room("c", 2, holds=(Hold("x", "task", 2.0, ends_s=500.0),))

    assert set(preview(spec(max_nodes=3), [*ROOMS[:2], busy], ROWS, [], 100.0).nodes) == {"a", "b"}


def test_a_gang_that_has_to_wait_says_why_and_where_it_would_go():
    busy = [Room(name, 2, holds=(Hold(f"on-{name}", "task", 2.0, ends_s=130.0),)) for name in "ab"]

    seen = preview(spec(), busy, ROWS, [], 100.0)

    assert seen.nodes == ("a", "b")
    assert "are kept for it until on-a on a, on-b on b ended; expected in 30 s" in seen.waits
    assert seen.as_json()["starts_now"] is False


def test_those_who_wait_already_come_first():
    before = QueuedGang.of("other", spec(min_nodes=3, max_nodes=3, slots=2.0), submitted_s=50.0)

    seen = preview(spec(), ROOMS, ROWS, [before], 100.0)

    assert "expected in 10 min" in seen.waits


def test_mpirun_shows_its_hostfile_and_what_is_assumed():
    seen = preview(spec(launcher="mpirun", ranks=2), ROOMS, ROWS, [], 100.0)

    (text,) = seen.plan.starts[0].files.values()
    assert text.splitlines() == [
        f"{address} slots=2  # {node}" for node, address in zip(seen.nodes, seen.addresses, strict=True)
    ]
    assert any("Open MPI 5 is assumed" in note for note in seen.notes)


def test_what_never_fits_has_no_plan():
    with pytest.raises(NeverFits):
        preview(spec(min_nodes=4, max_nodes=4), ROOMS, ROWS, [], 100.0)


def test_nodes_that_cannot_meet_are_named():
    apart = [row("a", "10.0.0.1"), row("b", "127.0.0.1")]

    with pytest.raises(MembersUnfit, match=r"node b has 127.0.0.1, which no other machine reaches"):
        preview(spec(), ROOMS[:2], apart, [], 100.0)
    with pytest.raises(MembersUnfit, match="node b does not say its address"):
        preview(spec(), ROOMS[:2], [row("a", "10.0.0.1"), row("b", "")], [], 100.0)
