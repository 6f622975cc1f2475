"""Which nodes a gang takes."""

from __future__ import annotations

from jetq.policy.placement import choose
from jetq.policy.timetable import Hold, Room

NX = [Room(f"nx{i}", 4, pace=1.0) for i in range(4)]
AGX = [Room(f"agx{i}", 8, pace=2.0) for i in range(2)]


def names(rooms: list[Room]) -> list[str]:
    return sorted(room.name for room in rooms)


def test_a_gang_takes_the_best_pace_it_can_have_and_no_faster_nodes_than_that_needs():
    assert names(choose(AGX + NX, 2, 2)) == ["agx0", "agx1"]
    assert names(choose(AGX + NX, 3, 3)) == ["nx0", "nx1", "nx2"]
    assert names(choose(AGX + NX, 5, 5)) == ["agx0", "nx0", "nx1", "nx2", "nx3"]


def test_a_range_takes_as_many_as_there_are_and_none_below_its_least():
    assert len(choose(NX, 2, 8)) == 4
    assert len(choose(NX, 2, 3)) == 3
    assert choose(NX, 5, 8) == []


def test_nodes_planned_for_others_come_last_and_its_own_first():
    assert names(choose(NX, 2, 2, planned=("nx0", "nx1"))) == ["nx2", "nx3"]
    assert names(choose(NX, 3, 3, planned=("nx0", "nx1"))) == ["nx0", "nx2", "nx3"]
    assert names(choose(NX, 2, 2, own=("nx1", "nx3"))) == ["nx1", "nx3"]


def test_the_fullest_node_that_has_room_comes_first():
    busy = Room("busy", 4, holds=(Hold("j", "task", 2.0),))

    assert choose([*NX, busy], 1, 1) == [busy]


def test_streams_have_to_move_only_for_the_least_number_of_nodes():
    crowded = ("nx2", "nx3")

    assert names(choose(NX, 2, 4, crowded=crowded)) == ["nx0", "nx1"]
    assert names(choose(NX, 3, 4, crowded=crowded)) == ["nx0", "nx1", "nx2"]
