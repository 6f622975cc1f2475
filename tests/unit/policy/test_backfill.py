"""Which gangs start, and what is planned for those that cannot."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from jetq.model.gang import GangSpec
from jetq.model.needs import Needs
from jetq.policy.backfill import PATIENCE_S, Decision, decide
from jetq.policy.timetable import MOVE_S, Demand, Hold, Reservation, Room
from jetq.policy.turns import BOUND_S, QueuedGang, in_turn

NOW_S = 1000.0
TWO_SLOTS = Needs(slots=2)


def gang(
    name: str,
    nodes: int | tuple[int, int],
    *,
    age_s: float = 10.0,
    lasts_s: float = 100.0,
    priority: int = 3,
    needs: Needs = TWO_SLOTS,
    over_streams: bool = False,
    not_before_s: float = 0.0,
) -> QueuedGang:
    least, most = (nodes, nodes) if isinstance(nodes, int) else nodes
    return QueuedGang(name, name, priority, NOW_S - age_s, least, most, needs, lasts_s, over_streams, not_before_s)


def rooms(count: int, busy: dict[int, float | None] | None = None, *, kind: str = "gang") -> list[Room]:
    """Return nodes a, b, c … with 2 slots; ``busy``: number -> seconds from now until what fills it ends."""
    found = []
    for number in range(count):
        holds: tuple[Hold, ...] = ()
        if busy and number in busy:
            left_s = busy[number]
            holds = (Hold(f"job{number}", kind, 2.0, ends_s=None if left_s is None else NOW_S + left_s),)
        found.append(Room("abcdefghij"[number], 2, holds=holds))
    return found


def started(decision: Decision) -> dict[str, str]:
    return {start.gang_id: "".join(sorted(start.nodes)) for start in decision.starts}


def reserved(decision: Decision) -> dict[str, tuple[str, float]]:
    return {r.gang_id: ("".join(sorted(r.nodes)), r.start_s - NOW_S) for r in decision.reservations}


def test_a_gang_gets_all_its_nodes_or_none():
    assert started(decide([gang("g", 3)], rooms(3), NOW_S)) == {"g": "abc"}
    assert started(decide([gang("g", 3)], rooms(3, {1: 50.0}), NOW_S)) == {}


def test_the_head_keeps_the_nodes_that_are_free_together_first():
    decision = decide([gang("g", 3)], rooms(5, {1: 500.0, 2: 50.0, 3: 90.0, 4: 200.0}), NOW_S)

    assert reserved(decision) == {"g": ("acd", 90.0)}


@pytest.mark.parametrize(("lasts_s", "starts"), [(90.0, True), (91.0, False)])
def test_who_ends_before_the_reservation_passes_the_head(lasts_s, starts):
    queue = [gang("head", 3, age_s=20.0), gang("small", 1, lasts_s=lasts_s)]

    decision = decide(queue, rooms(3, {1: 50.0, 2: 90.0}), NOW_S)

    assert started(decision) == ({"small": "a"} if starts else {})
    assert reserved(decision) == {"head": ("abc", 90.0)}


def test_who_uses_nodes_the_head_does_not_need_passes_it_for_any_length():
    queue = [gang("head", 4, age_s=20.0), gang("small", 1, lasts_s=1e6), gang("more", 1, age_s=5.0, lasts_s=1e6)]

    decision = decide(queue, rooms(5, {2: 50.0, 3: 50.0, 4: 50.0}), NOW_S)

    assert reserved(decision) == {"head": ("acde", 50.0)}
    assert started(decision) == {"small": "b"}


def test_who_leaves_enough_beside_the_head_on_its_own_nodes_passes_it():
    wide = [replace(room, slots=6) for room in rooms(2, {1: 50.0})]
    wide[1] = replace(wide[1], holds=(Hold("j", "task", 6.0, ends_s=NOW_S + 50.0),))
    queue = [
        gang("head", 2, age_s=20.0, needs=Needs(slots=4)),
        gang("beside", 1, lasts_s=1e6, needs=Needs(slots=2)),
        gang("much", 1, lasts_s=1e6, needs=Needs(slots=1)),
    ]

    decision = decide(queue, wide, NOW_S)

    assert started(decision) == {"beside": "a"}
    assert reserved(decision) == {"head": ("ab", 50.0)}


def test_one_reservation_for_each_label_class():
    there = [
        replace(room, labels=frozenset({f"zone={'xy'[i // 2]}"})) for i, room in enumerate(rooms(4, {0: 50.0, 2: 70.0}))
    ]
    x, y = Needs(("zone=x",), 2), Needs(("zone=y",), 2)
    queue = [
        gang("x1", 2, age_s=40.0, needs=x),
        gang("x2", 2, age_s=30.0, needs=x),
        gang("y1", 2, age_s=20.0, needs=y),
    ]

    decision = decide(queue, there, NOW_S)

    assert reserved(decision) == {"x1": ("ab", 50.0), "y1": ("cd", 70.0)}


def test_a_gang_that_can_have_no_reservation_now_leaves_its_class_to_the_next():
    queue = [gang("huge", 4, age_s=20.0), gang("next", 3)]

    assert reserved(decide(queue, rooms(3, {0: 50.0}), NOW_S)) == {"next": ("abc", 50.0)}


def test_a_range_takes_what_is_free_within_its_bounds_after_the_heads_reservation():
    assert started(decide([gang("g", (2, 4))], rooms(6, {0: 9.0}), NOW_S)) == {"g": "bcde"}
    assert started(decide([gang("g", (2, 8))], rooms(6, {0: 9.0}), NOW_S)) == {"g": "bcdef"}
    queue = [gang("head", 4, age_s=20.0), gang("range", (1, 4), lasts_s=1e6)]

    decision = decide(queue, rooms(6, {0: 90.0, 1: 90.0, 2: 95.0}), NOW_S)

    assert reserved(decision) == {"head": ("abde", 90.0)}
    assert started(decision) == {"range": "f"}


def test_priority_comes_before_age_and_a_passed_bound_before_both():
    young, urgent, old = gang("young", 1), gang("urgent", 1, priority=0), gang("old", 1, age_s=BOUND_S, priority=6)
    older = gang("older", 1, age_s=BOUND_S + 1.0, lasts_s=1e4)

    assert [g.id for g in in_turn([young, urgent, old, older], NOW_S)] == ["old", "urgent", "older", "young"]


def test_nobody_overtakes_the_first_whose_bound_has_passed():
    first, long_ = gang("first", 1, age_s=BOUND_S), gang("long", 1, age_s=5000.0, lasts_s=1000.1)

    assert [g.id for g in in_turn([long_, first], NOW_S)] == ["first", "long"]
    assert [g.id for g in in_turn([long_, first], NOW_S + 5000.0)] == ["first", "long"]


def test_a_gang_waits_for_what_its_spec_asks_for():
    spec = GangSpec(("python", "train.py"), 2, 4, ranks=2, slots=1.5, labels=("zone=x",), priority=6, time_limit_s=90.0)

    waiting = QueuedGang.of("g", spec, submitted_s=NOW_S, runs=[40.0, 60.0])

    assert (waiting.least, waiting.most, waiting.priority, waiting.name) == (2, 4, 6, spec.name)
    assert waiting.demand == Demand(Needs(("zone=x",), 3.0), 50.0)


def test_a_gang_that_pauses_neither_starts_nor_keeps_nodes():
    queue = [gang("pausing", 2, age_s=20.0, not_before_s=NOW_S + 5.0), gang("next", 2)]

    assert started(decide(queue, rooms(2), NOW_S)) == {"next": "ab"}


def test_planned_nodes_stay_where_they_are_if_that_costs_nothing():
    queue = [gang("g", 2)]
    there = rooms(4, {0: 50.0, 1: 50.0, 2: 50.0, 3: 50.0})
    before = Reservation("g", ("c", "d"), Needs(slots=2), NOW_S + 60.0, NOW_S + 160.0)

    assert reserved(decide(queue, there, NOW_S, before=[before])) == {"g": ("cd", 50.0)}


def test_nodes_are_closed_once_the_bound_has_passed_and_a_promise_was_not_kept():
    old = gang("old", 2, age_s=2 * BOUND_S)
    there = rooms(2, {1: 50.0})
    first = decide([old], there, NOW_S).reservations

    def closed(late_s: float, who: QueuedGang = old) -> tuple[str, ...]:
        kept = replace(first[0], promised_s=NOW_S - late_s)
        return decide([who], there, NOW_S, before=[kept]).reservations[0].closed

    assert first[0].closed == ()
    assert closed(PATIENCE_S - 1.0) == ()
    assert set(closed(PATIENCE_S)) == {"a", "b"}
    assert closed(PATIENCE_S, gang("old", 2, age_s=1.0)) == ()


def test_a_closed_node_stays_closed_until_the_gang_starts():
    old = gang("old", 1, age_s=2 * BOUND_S)
    before = Reservation(
        "old", ("a",), Needs(slots=2), NOW_S, NOW_S + 1.0, promised_s=NOW_S - PATIENCE_S, closed=("a",)
    )

    decision = decide(
        [old, gang("tiny", 1, lasts_s=0.01)], rooms(3, {0: 90.0, 1: 50.0, 2: 70.0}), NOW_S, before=[before]
    )

    assert reserved(decision) == {"old": ("b", 50.0)}
    assert set(decision.reservations[0].closed) == {"a", "b"}


def test_streams_are_moved_only_for_a_gang_that_may_and_only_when_nothing_else_is_in_the_way():
    cams = rooms(3, {0: None}, kind="stream")
    busy = [cams[0], cams[1], replace(cams[2], holds=(Hold("j", "task", 2.0, ends_s=NOW_S + 90.0),))]

    assert reserved(decide([gang("g", 3)], cams, NOW_S)) == {}
    now = decide([gang("g", 3, over_streams=True)], cams, NOW_S)
    assert (reserved(now), now.reservations[0].moves) == ({"g": ("abc", MOVE_S)}, ("job0",))
    later = decide([gang("g", 3, over_streams=True)], busy, NOW_S)
    assert (reserved(later), later.reservations[0].moves) == ({"g": ("abc", 90.0)}, ())


def test_no_more_streams_move_than_must():
    cams = (Hold("big", "stream", 2.0), Hold("small", "stream", 1.0))
    there = [Room("a", 4, holds=cams)]

    assert decide([gang("g", 1, over_streams=True)], there, NOW_S).reservations[0].moves == ("big",)
    assert started(decide([gang("g", 1, needs=Needs(), over_streams=True)], there, NOW_S)) == {"g": "a"}


def test_a_camera_that_hangs_on_its_node_is_not_moved_for_a_gang():
    there = [Room("a", 4, holds=(Hold("door", "camera", 2.0), Hold("gate", "stream", 2.0))), Room("b", 4)]
    three = Needs(slots=3)

    assert decide([gang("g", 2, over_streams=True)], there, NOW_S).reservations[0].moves == ("gate",)
    assert decide([gang("g", 2, needs=three, over_streams=True)], there, NOW_S).reservations == ()


@pytest.mark.parametrize("filler_priority", [3, 6])
@pytest.mark.parametrize("kept", list(itertools.product((0.0, 5.0), (0.0, 7.0))))
def test_of_two_gangs_that_each_lost_a_node_exactly_one_gets_the_spare(kept, filler_priority):
    """Seven nodes: a b are left of the first gang, c d of the second, e is spare; f and g were lost."""
    left = {
        number: left_s for number, left_s in zip((0, 1, 2, 3), (kept[0], 0.0, kept[1], kept[1]), strict=True) if left_s
    }
    queue = [
        gang("first", 3, age_s=500.0),
        gang("second", 3, age_s=400.0),
        *(gang(f"filler{i}", 1, age_s=20.0 - i, lasts_s=1e6, priority=filler_priority) for i in range(3)),
    ]
    there = rooms(5, left)
    decision = decide(queue, there, NOW_S)
    if "first" not in started(decision):  # survivors are still being cleaned: the spare is kept meanwhile
        assert not decision.starts
        assert reserved(decision)["first"][1] in kept
        decision = decide(queue, rooms(5), NOW_S + 7.0, before=decision.reservations)

    one = started(decision)
    assert len(one["first"]) == 3
    assert "second" not in one
    assert [r.gang_id for r in decision.reservations] == ["second"]
    assert decision.reservations[0].start_s - NOW_S <= 7.0 + 100.0, "when the first ends, whatever filler starts"
