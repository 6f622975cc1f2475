"""What router and lanes are told to keep free."""

from __future__ import annotations

from jetq.model.needs import Needs
from jetq.policy.planned import Planned, planned
from jetq.policy.timetable import Reservation


def test_a_reservation_keeps_its_needs_on_its_nodes_until_its_start():
    kept = planned([Reservation("g", ("a", "b"), Needs(slots=2, gpu=1, mem_bytes=5), 100.0, 200.0)])

    assert kept == {name: Planned(2, 1, 5, 100.0) for name in ("a", "b")}
    assert kept["a"].lets(100.0)
    assert not kept["a"].lets(100.1)


def test_a_closed_node_lets_nothing_pass():
    kept = planned([Reservation("g", ("a",), Needs(slots=2), 100.0, 200.0, closed=("a", "z"))])

    assert set(kept) == {"a", "z"}
    assert not any(kept[name].lets(1.0) for name in kept)


def test_of_two_reservations_on_a_node_counts_the_most_at_one_time_and_the_first_start():
    first = Reservation("g", ("a",), Needs(slots=2), 100.0, 200.0)

    assert planned([first, Reservation("h", ("a",), Needs(slots=3), 150.0, 250.0)])["a"].slots == 5
    assert planned([first, Reservation("h", ("a",), Needs(slots=3), 200.0, 250.0)])["a"] == Planned(3, 0, 0, 100.0)
