"""Streams that are moved, changed, cancelled or wait, on boards: the new owner first, no frame seen by two owners."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.fault.boards import Boards, wait
from tests.fault.node import Node
from tests.fault.streams import Streams, Witness

pytestmark = pytest.mark.xdist_group("stream-moves")
FOUR = [f"cam{number}" for number in range(4)]
#: What a planned move may cost: an owner's last words and its successor's first ones wait a quarter of a second each
#: in two places, and machines of CI are slow (s).
HAND_S = 2.5


@pytest.fixture
def streams(cluster: Boards) -> Iterator[Streams]:
    """Give three boards with a node on each, as whole as on the first day, and their streams."""
    for name in cluster.by_name:
        cluster.ledger.resume(name)
    cluster.mend()
    found = Streams(cluster)
    yield found
    for name in cluster.by_name:
        cluster.ledger.resume(name)
    cluster.mend()
    found.end_all()


def on(streams: Streams, node: str, *ids: str, **fields: object) -> None:
    """Start streams on a node; they may go anywhere afterwards."""
    for stream in ids:
        streams.want(stream, **{**fields, "labels": [f"node={node}"]})
    wait(lambda: {streams.homes()[stream] for stream in ids} == {node}, 40, f"they are on {node}", row=streams.homes)
    for stream in ids:
        streams.want(stream, **fields)


def drain(streams: Streams, name: str, grace_s: float = 60) -> None:
    streams.ledger.drain(name, "a test", grace_s=grace_s)


def follower(streams: Streams) -> Node:
    """Return a node that does not lead."""
    return next(node for name, node in streams.boards.by_name.items() if name != streams.boards.leader)


def runners(streams: Streams) -> int:
    """Return how many runners there are on all boards."""
    return sum(len(streams.runners(node)) for node in streams.boards.by_name.values())


def test_a_drain_moves_streams_to_new_owners_before_it_stops_the_old_ones(streams):
    node = follower(streams)
    on(streams, node.name, *FOUR)

    with Witness(streams.boards.url, FOUR) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        drain(streams, node.name)
        wait(lambda: streams.boards.state(node.name).startswith("drained"), 20, "it is empty")
        wait(lambda: all(len(tale.owners) == 2 for tale in witness.tales.values()), 10, "the next owners' results")

    assert max(witness.longest().values()) < HAND_S, witness.longest()
    assert witness.doubled == {}
    assert [entry["what"] for entry in streams.ledger.job("cam0").history] == ["start", "prepare", "hand"]
    wait(lambda: runners(streams) == 4, 10, "four runners")


def test_a_drain_with_no_room_elsewhere_keeps_streams_until_its_grace_ends_and_then_they_wait_with_the_reason(streams):
    node = follower(streams)
    others = [name for name in streams.boards.by_name if name != node.name]
    on(streams, node.name, *FOUR, cost=0.4)
    for name in others:
        on(streams, name, f"full-{name}", cost=1.8)

    drain(streams, node.name, grace_s=4)
    wait(lambda: "no node can take it now" in (streams.ledger.job("cam0").reason or ""), 10, "why it cannot leave")
    reason = streams.ledger.job("cam0").reason
    assert all(f"{name} has 0.20 of 2 slots free; the stream costs 0.40" in reason for name in others), reason
    assert streams.homes()["cam0"] == node.name, "it runs as long as it may"
    wait(lambda: streams.boards.state(node.name).startswith("drained"), 30, "the end of the grace")

    def wait_all() -> bool:
        rows = [streams.ledger.job(stream) for stream in FOUR]
        return all(row.state == "QUEUED" and "no node can take it now" in row.reason for row in rows)

    wait(wait_all, 10, "they wait, and say why", row=lambda: streams.ledger.job("cam0"))
    assert runners(streams) == 2

    streams.ledger.resume(node.name)
    streams.wait_streaming(*FOUR)


def test_sigterm_moves_streams_before_the_node_ends(streams):
    node = follower(streams)
    on(streams, node.name, *FOUR)

    with Witness(streams.boards.url, FOUR) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        os.kill(node.guard, signal.SIGTERM)
        assert node.wait(40) == 0
        wait(lambda: all(len(tale.owners) == 2 for tale in witness.tales.values()), 10, "the next owners' results")

    assert not node.left()
    assert max(witness.longest().values()) < HAND_S, witness.longest()
    assert witness.doubled == {}


def test_a_stream_that_is_cancelled_while_it_moves_leaves_nothing(streams):
    node = follower(streams)
    on(streams, node.name, "cam0", analyzer="fault_analyzers:SlowStart")
    job = streams.client.job("cam0")

    drain(streams, node.name)
    wait(lambda: streams.record("cam0").heir, 10, "its heir")
    wait(lambda: runners(streams) == 2, 10, "two runners")
    job.cancel()
    row = job.wait(20)

    assert row.state == "CANCELLED"
    wait(lambda: runners(streams) == 0, 10, "no runner")
    assert not [held for held in streams.boards.leases() if held.startswith("cam0")]


def test_a_stream_that_is_changed_while_it_moves_runs_as_it_was_changed_on_one_node(streams):
    node = follower(streams)
    on(streams, node.name, "cam0", analyzer="fault_analyzers:SlowStart")

    with Witness(streams.boards.url, ["cam0"]) as witness:
        drain(streams, node.name)
        wait(lambda: streams.record("cam0").heir, 10, "its heir")
        streams.want("cam0", analyzer="fault_analyzers:SlowStart", fps=2)
        wait(lambda: streams.homes()["cam0"] not in ("", node.name), 40, "it has moved", row=streams.homes)
        wait(lambda: 0 < streams.told("cam0").get("fps_out", 9) < 3, 20, "2 fps", row=lambda: streams.told("cam0"))

    assert witness.doubled == {}
    wait(lambda: runners(streams) == 1, 10, "one runner")


def test_a_leader_that_is_killed_in_the_middle_of_a_move_is_followed_by_one_that_ends_it(streams):
    leader = streams.boards.by_name[streams.boards.leader]
    node = follower(streams)
    on(streams, node.name, "cam0", analyzer="fault_analyzers:SlowStart")

    with Witness(streams.boards.url, ["cam0"]) as witness:
        wait(lambda: witness.tales["cam0"].sights, 10, "its results")
        other = next(name for name in streams.boards.by_name if name not in (leader.name, node.name))
        streams.want("cam0", analyzer="fault_analyzers:SlowStart", labels=[f"node={other}"])
        wait(lambda: streams.record("cam0").heir, 10, "its heir")
        leader.power_off()
        wait(lambda: streams.homes()["cam0"] == other, 40, "it has moved", row=streams.homes)
        wait(lambda: len(witness.tales["cam0"].owners) == 2, 10, "results of the next owner")

    assert witness.doubled == {}
    assert streams.boards.leader != leader.name
    wait(lambda: runners(streams) == 1, 10, "one runner")
    assert [entry["what"] for entry in streams.ledger.job("cam0").history] == ["start", "prepare", "hand"]


def test_a_stream_whose_only_node_is_away_waits_with_the_reason_and_starts_when_that_returns(streams):
    node = follower(streams)
    job = streams.want("cam0", labels=[f"node={node.name}"])
    streams.wait_streaming("cam0")

    node.power_off()
    wait(lambda: job.row().state == "QUEUED", 15, "it waits")
    wait(lambda: f"does not carry node={node.name}" in (job.row().reason or ""), 5, "why", row=job.row)
    since_s = time.monotonic()
    streams.boards.mend()
    streams.wait_streaming("cam0")

    assert streams.homes()["cam0"] == node.name
    assert time.monotonic() - since_s < 60


def test_an_analyzer_that_raises_on_each_frame_fails_its_stream_alone_with_the_traceback(streams):
    streams.want("well")
    job = streams.want("ill", analyzer="fault_analyzers:Raises")

    row = job.wait(60)

    assert row.state == "FAILED"
    assert "its analyzer raised on 10 frames in a row, 3 times in a row, each time anew: " in row.error
    assert 'raise ValueError("the model is empty")' in row.error
    assert row.error.count("Traceback") == 1
    assert "fault_analyzers.py" in row.error
    assert streams.told("well")["reconnects"] == 0
    assert streams.homes() == {"well": streams.homes()["well"]}


def test_an_analyzer_that_has_not_begun_for_long_is_not_waited_for_for_ever(streams):
    """One that hangs in its start shows no frame within 30 s: its runner is killed, and it is tried again."""
    job = streams.want("hangs", analyzer="fault_analyzers:Hangs")

    wait(lambda: (job.row().telemetry or {}).get("reconnects"), 60, "a second runner", row=job.row)
    told = job.row().telemetry
    job.cancel()

    assert job.wait(20).state == "CANCELLED"
    assert told["why"] == "" or "no frame within 30" in told["why"]
    wait(lambda: runners(streams) == 0, 10, "no runner")
