"""What is free on a node, now and later."""

from __future__ import annotations

import pytest

from jetq.model.needs import Needs
from jetq.policy.timetable import MOVE_S, OVERDUE_S, Demand, Hold, Reservation, Room, Timetable


def room(*holds: Hold, name: str = "a", slots: int = 4, rests_until_s: float = 0.0, why_not: str = "") -> Room:
    return Room(name, slots, 1, 8, frozenset({"zone=yard"}), 1.0, holds, rests_until_s, why_not)


def demand(slots: float, lasts_s: float = 10.0, *, over_streams: bool = False, **more: int) -> Demand:
    return Demand(Needs(slots=slots, **more), lasts_s, over_streams)


@pytest.mark.parametrize(
    ("needs", "enough"),
    [
        (Needs(slots=4), True),
        (Needs(slots=5), False),
        (Needs(gpu=1, mem_bytes=8), True),
        (Needs(mem_bytes=9), False),
        (Needs(labels=("zone=yard",)), True),
        (Needs(labels=("zone=hall",)), False),
    ],
)
def test_an_empty_node_is_enough_for_what_it_has(needs, enough):
    assert room().could(needs) is enough
    assert Timetable([room()], 0.0).fits(room(), Demand(needs, 1.0), 0.0) is enough


@pytest.mark.parametrize("held", [Hold("j", "task", 1.0, gpu=1), Hold("j", "task", 1.0, mem_bytes=1)])
def test_a_gpu_and_memory_are_held_too(held):
    seen = room(held)
    table = Timetable([seen], 0.0)

    assert not table.fits(seen, Demand(Needs(gpu=1, mem_bytes=8), 1.0), 0.0)


def test_what_fits_later_is_found_at_the_end_of_what_is_in_its_way():
    rooms = [room(Hold("x", "task", 3.0, ends_s=7.0)), room(Hold("y", "task", 2.0, ends_s=5.0), name="b")]

    table = Timetable(rooms, 0.0)

    assert table.opening(demand(1), 2) == (0.0, rooms)
    assert table.opening(demand(2), 1) == (0.0, rooms[1:])
    assert table.opening(demand(2), 2) == (7.0, rooms)
    assert table.opening(demand(4), 1) == (5.0, rooms[1:])


def test_what_never_ends_by_itself_is_never_waited_for():
    table = Timetable([room(Hold("cam", "stream", 1.0))], 0.0)

    assert table.opening(demand(4), 1) is None
    assert table.opening(demand(4, over_streams=True), 1) is not None


def test_who_may_move_streams_waits_until_they_have_moved():
    table = Timetable([room(Hold("cam", "stream", 1.0))], 100.0)

    found = table.opening(demand(4, over_streams=True), 1)

    assert found and found[0] == 100.0 + MOVE_S


def test_a_job_that_should_have_ended_still_holds_its_slots():
    seen = room(Hold("late", "task", 4.0, ends_s=50.0))
    table = Timetable([seen], 100.0)

    assert not table.fits(seen, demand(1), 100.0)
    assert table.opening(demand(1), 1) == (100.0 + OVERDUE_S, [seen])


@pytest.mark.parametrize(("slots", "lasts_s", "fits"), [(4, 20.0, True), (4, 20.1, False), (1, 99.0, True)])
def test_what_is_reserved_may_be_used_by_what_ends_before_or_leaves_enough(slots, lasts_s, fits):
    seen = room()
    table = Timetable([seen], 0.0)
    table.reserve(Reservation("g", ("a",), Needs(slots=3), 20.0, 50.0))

    assert table.fits(seen, demand(slots, lasts_s), 0.0) is fits


def test_a_closed_node_is_used_by_nobody_however_shortly():
    seen = room()
    table = Timetable([seen], 0.0)
    table.reserve(Reservation("g", ("a",), Needs(slots=4), 20.0, 50.0, closed=("a",)))

    assert not table.fits(seen, demand(1, 1.0), 0.0)


def test_a_hole_between_two_reservations_is_found_only_by_what_fits_in_it():
    table = Timetable([room()], 0.0)
    table.reserve(Reservation("g", ("a",), Needs(slots=4), 0.0, 10.0))
    table.reserve(Reservation("h", ("a",), Needs(slots=4), 25.0, 40.0))

    assert table.opening(demand(4, 15.0), 1) == (10.0, [room()])
    assert table.opening(demand(4, 16.0), 1) == (40.0, [room()])


def test_two_nodes_whose_holes_do_not_overlap_are_no_opening():
    rooms = [room(), room(name="b")]
    table = Timetable(rooms, 0.0)
    table.reserve(Reservation("g", ("a",), Needs(slots=4), 10.0, 30.0))
    table.reserve(Reservation("h", ("b",), Needs(slots=4), 0.0, 10.0))

    assert table.opening(demand(4, 10.0), 2) == (30.0, rooms)


def test_a_node_that_rests_or_takes_nothing_is_not_used_meanwhile():
    resting, draining = room(rests_until_s=30.0), room(name="b", why_not="is draining")
    table = Timetable([resting, draining], 0.0)

    assert table.opening(demand(1), 1) == (30.0, [resting])
    assert table.opening(demand(1), 2) is None
