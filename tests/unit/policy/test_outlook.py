"""What is said of a gang that waits."""

from __future__ import annotations

from dataclasses import replace

from jetq.model.needs import Needs
from jetq.policy.backfill import PATIENCE_S, decide
from jetq.policy.outlook import Outlook, about, outlooks
from jetq.policy.timetable import Hold, Room
from jetq.policy.turns import QueuedGang

NOW_S = 1000.0
BUSY = Room("b", 2, holds=(Hold("train-7", "gang", 2.0, ends_s=NOW_S + 300.0),))


def gang(id_: str, nodes: int, *, age_s: float = 10.0, **more) -> QueuedGang:
    return QueuedGang(id_, f"{id_}.py", 3, NOW_S - age_s, nodes, nodes, Needs(slots=2), 600.0, **more)


def look(queue: list[QueuedGang], rooms: list[Room], **more) -> dict[str, Outlook]:
    return outlooks(decide(queue, rooms, NOW_S, **more), queue, rooms, NOW_S)


def test_the_head_says_what_is_kept_for_it_what_it_waits_for_and_until_when():
    found = look([gang("g", 2)], [Room("a", 2), BUSY])

    assert found == {"g": Outlook(NOW_S + 300.0, 1, "a, b are kept for it until train-7 on b ended; expected in 5 min")}


def test_who_starts_has_no_outlook():
    assert look([gang("g", 1)], [Room("a", 2)]) == {}


def test_those_behind_say_how_many_are_ahead_and_whom_they_must_not_delay():
    queue = [gang("g", 2, age_s=30.0), gang("h", 1, age_s=20.0), gang("i", 2)]

    found = look(queue, [Room("a", 2), BUSY])

    assert found["h"] == Outlook(NOW_S + 900.0, 2, "1 ahead of it; it must not delay g.py (g); expected in 15 min")
    assert found["i"].expected_s == NOW_S + 1500.0
    assert found["i"].place == 3


def test_streams_that_are_in_the_way_are_named():
    cam = Room("a", 2, holds=(Hold("front-door", "stream", 1.0),))

    assert "front-door on a; cancel some" in look([gang("g", 1)], [cam])["g"].why
    assert "moves for it: front-door" in look([gang("g", 1, over_streams=True)], [cam])["g"].why


def test_a_node_that_drains_or_rests_is_named():
    draining, resting = Room("a", 2, why_not="is draining"), Room("b", 2, rests_until_s=NOW_S + 20.0)

    assert look([gang("g", 1)], [draining])["g"] == Outlook(None, 1, "needs 1 node with 2 slots each; a is draining")
    assert look([gang("g", 1)], [resting])["g"].why == ("b is kept for it; b refused and rests; expected in 20 s")


def test_a_pause_between_two_attempts_is_said():
    found = look([gang("g", 1, not_before_s=NOW_S + 20.0)], [Room("a", 2)])

    assert found == {"g": Outlook(NOW_S + 20.0, None, "pauses 20 s before its next attempt")}


def test_nodes_closed_for_it_are_said():
    queue, rooms = [gang("g", 2, age_s=1e5)], [Room("a", 2), BUSY]
    late = replace(decide(queue, rooms, NOW_S).reservations[0], promised_s=NOW_S - PATIENCE_S)

    assert (
        "nothing else starts on a, b before it, since it has waited too long"
        in look(queue, rooms, before=[late])["g"].why
    )


def test_times_are_said_as_people_do():
    assert [about(seconds) for seconds in (0.2, 40, 600, 12600)] == ["1 s", "40 s", "10 min", "3.5 h"]
