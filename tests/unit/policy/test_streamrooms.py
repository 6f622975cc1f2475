"""Streams and nodes as placement sees them, from records."""

from __future__ import annotations

import json

import pytest

from jetq.errors import UsageError
from jetq.model.job import JobState
from jetq.model.stream import StreamSpec
from jetq.policy.seats import Seat, Taken
from jetq.policy.streamcost import Load, guess
from jetq.policy.streamrooms import ending_record, load_of, load_text, seat_record, stream_node, stream_record

SEAT = {"state": "RUNNING", "node": "a", "assigned_at": "12.5", "lease": "1.5 0 0 stream"}
SPEC = StreamSpec("test:ball", cost=2.0, gpu=1, mem_bytes=7)
STREAM = {"spec": json.dumps(SPEC.as_json()), "turn": "3"}
NODE = {"state": "up", "slots": "4", "cores": "4", "labels": "video node=a", "gpu": "1", "mem": "1000", "board": "pc"}


def node(leases=(), *, seats=(), knows=True, hot=False, **record):
    return stream_node("a", NODE | record, dict(leases), seats=seats, knows=knows, hot=hot)


def test_a_seat_is_what_its_record_says():
    seat = seat_record("x.1", SEAT | {"ready_at": "13", "telemetry": '{"slowed": "5 of 10 fps"}'})

    assert (seat.id, seat.node, seat.state) == ("x.1", "a", JobState.RUNNING)
    assert (seat.ready, seat.live, seat.slots, seat.hot, seat.lost) == (True, True, 1.5, True, False)


def test_a_seat_that_is_forgotten_is_none():
    assert seat_record("x.1", {}) is None


@pytest.mark.parametrize("result", ["", "null", '"well"', '{"how": "over"}'])
def test_a_seat_whose_end_cannot_be_read_has_failed(result):
    seat = seat_record("x.1", SEAT | {"state": "SUCCEEDED", "result": result})

    assert (seat.end, seat.live) == (None, False)
    assert "cannot be read" in seat.error


def test_a_lost_seat_says_why():
    seat = seat_record("x.1", SEAT | {"state": "FAILED", "error": "its lane died", "lost_at": "14"})

    assert (seat.live, seat.lost, seat.error) == (False, True, "its lane died")


def test_a_stream_is_seen_with_what_was_measured_else_guessed_and_with_its_living_seats():
    owner = seat_record("x.1", SEAT | {"ready_at": "13"})
    heir = seat_record("x.2", SEAT | {"state": "FAILED", "node": "b"})
    record = stream_record("x", STREAM, owner, heir)

    stream = record.stream("makes room")

    assert (stream.owner, stream.heir) == (Seat("a", 0.0, ready=True), None)
    assert (stream.declared, stream.gpu, stream.mem_bytes, stream.asked) == (2.0, 1, 7, "makes room")
    assert (record.turn, stream.load) == (3, guess(SPEC))
    load = Load(0.5, 1e6, "h265", by_board=False)
    assert stream_record("x", STREAM | {"load": load_text(load)}, owner, heir).stream().load == load


def test_the_node_that_has_just_lost_a_stream_is_shaky():
    lost = seat_record("x.1", SEAT | {"state": "FAILED", "lost_at": "14"})
    stopped = seat_record("x.1", SEAT | {"state": "CANCELLED"})

    assert stream_record("x", STREAM, lost, None).stream().shaky == "a"
    assert stream_record("x", STREAM, stopped, None).stream().shaky == ""


@pytest.mark.parametrize("spec", ["", "{}", "[]", '{"uri": "test:ball", "colour": "red"}', '{"uri": 7}'])
def test_a_spec_that_cannot_be_read_raises_and_its_stream_can_be_ended(spec):
    with pytest.raises((UsageError, TypeError, ValueError)):
        stream_record("x", STREAM | {"spec": spec}, None, None)

    ending = ending_record("x", STREAM | {"spec": spec, "reason": "of another version"}, None, None)
    assert (ending.cancel_asked, ending.turn, ending.reason) == (True, 3, "of another version")


@pytest.mark.parametrize("text", ["", "null", "[1]", "[1, 2, 3, 4, 5]", "{", '"x"'])
def test_a_load_that_cannot_be_read_is_not_known(text):
    assert load_of(text) is None
    assert load_text(None) == ""


@pytest.mark.parametrize("state", ["gone", "dead"])
def test_who_is_not_there_is_no_node(state):
    assert node(state=state) is None
    assert stream_node("a", {}, {}, seats=(), knows=True, hot=False) is None


def test_what_others_hold_for_long_takes_room_and_tasks_make_it():
    leases = {"x.1": "1 0 0 stream", "y.1": "0.5 0 9 stream", "g.1.0": "1 1 0 gang", "t": "2 0 0 task"}

    found = node(leases, seats=["x.1"])

    assert found.gangs == Taken(1.5, 1, 9)
    assert found.labels == {"video", "node=a"}
    assert node(planned="[2, 1, 5, 99.0]").planned == Taken(2, 1, 5)


@pytest.mark.parametrize(
    ("record", "leaving", "why_not"),
    [
        ({}, "", ""),
        ({"state": "draining", "drain": "30"}, "drains", "is too hot, or short of memory"),
        ({"state": "draining"}, "", "is too hot, or short of memory"),
        ({"state": "stopping"}, "is stopping", ""),
        ({"state": "suspect"}, "", "has not been heard of"),
        ({"state": "failing"}, "", "rests, because its jobs failed"),
        ({"state": "starting"}, "", "is starting"),
    ],
)
def test_who_shall_be_empty_and_who_takes_nothing_new(record, leaving, why_not):
    found = node(**record)

    assert (found.leaving, found.why_not) == (leaving, why_not)


def test_a_node_that_does_not_know_the_task_takes_nothing_new():
    assert node(knows=False).why_not == "does not know the task stream.run"


def test_readings_are_those_of_its_beat():
    found = node(metrics='{"cpu_busy": 0.5}', trim="0.5", hot=True)

    assert (found.cpu_busy, found.trim, found.hot) == (0.5, 0.5, True)
    assert node().cpu_busy is None
