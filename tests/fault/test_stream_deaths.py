"""What dies under streams on boards: only what must begins anew, each stream has one owner, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from jetq import procfs
from tests.fault.boards import Boards, wait
from tests.fault.node import Node
from tests.fault.streams import Streams, Witness

pytestmark = pytest.mark.xdist_group("stream-deaths")
#: A node that died is known to be dead, and its streams' results come from others, within so long (s): DESIGN 9.
MOVED_S = 7.0
EIGHT = [f"cam{number}" for number in range(8)]


@pytest.fixture
def streams(cluster: Boards) -> Iterator[Streams]:
    """Give three boards with a node on each, as whole as on the first day, and their streams."""
    cluster.mend()
    found = Streams(cluster)
    yield found
    cluster.mend()
    found.end_all()


def eight_on(streams: Streams, *, leads: bool, stall_s: float = 10) -> Node:
    """Start eight streams on one node, the one that leads or another; return it. They may go anywhere afterwards."""
    boards = streams.boards
    node = next(node for name, node in boards.by_name.items() if (name == boards.leader) == leads)
    for stream in EIGHT:
        streams.want(stream, labels=[f"node={node.name}"], stall_s=stall_s)
    wait(lambda: set(streams.homes().values()) == {node.name}, 40, "eight streams on it", row=streams.homes)
    for stream in EIGHT:
        streams.want(stream, stall_s=stall_s)
    return node


def wait_elsewhere(streams: Streams, node: Node, within_s: float = 20.0) -> None:
    """Wait until frames of all streams come from other nodes."""

    def moved() -> bool:
        homes = streams.homes()
        return len(homes) == len(EIGHT) and all(homes.values()) and node.name not in homes.values()

    wait(moved, within_s, f"all streams away from {node.name}", row=streams.homes)


@pytest.mark.parametrize("leads", [False, True], ids=["another", "the-leader"])
def test_a_node_with_eight_streams_that_loses_power_is_followed_within_7_s_and_nobody_sees_a_frame_twice(
    streams, leads
):
    node = eight_on(streams, leads=leads)

    with Witness(streams.boards.url, EIGHT) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        node.power_off()
        wait_elsewhere(streams, node)
        wait(lambda: all(len(tale.owners) == 2 for tale in witness.tales.values()), 10, "results of the next owners")

    assert max(witness.longest().values()) < MOVED_S, witness.longest()
    assert witness.doubled == {}
    assert all(len(tale.owners) == 2 for tale in witness.tales.values()), "each moved once"


@pytest.mark.parametrize("leads", [False, True], ids=["another", "the-leader"])
def test_a_node_that_is_cut_off_has_killed_its_runners_before_others_see_anything(streams, leads):
    node = eight_on(streams, leads=leads)
    number = "abc".index(node.name) + 1

    with Witness(streams.boards.url, EIGHT) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        streams.boards.lan.pull(number)
        wait(lambda: not streams.runners(node), 10, "the end of its runners")
        dead_s = time.time()
        wait_elsewhere(streams, node)
        wait(lambda: all(len(tale.owners) == 2 for tale in witness.tales.values()), 10, "results of the next owners")
        streams.boards.lan.plug(number)
        streams.boards.mend()
        wait_elsewhere(streams, node)

    assert max(witness.longest().values()) < MOVED_S, witness.longest()
    assert witness.doubled == {}
    for tale in witness.tales.values():
        assert len(tale.owners) == 2, "it moved once, and stayed when its node came back"
        first = next(sight for sight in tale.sights if sight.token == tale.owners[1])
        assert first.at_s > dead_s, "its last owner was dead when the next one saw a frame"


def test_an_agent_that_is_killed_and_back_under_its_name_at_once_has_its_streams_on_one_node_each(streams):
    node = eight_on(streams, leads=False)

    with Witness(streams.boards.url, EIGHT) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        os.kill(node.pid_of("agent"), signal.SIGKILL)
        node.wait()
        assert not node.left(), "nothing of it is left"
        streams.boards.mend()
        streams.wait_streaming(*EIGHT)
        wait(lambda: all(len(tale.owners) == 2 for tale in witness.tales.values()), 10, "results of the next owners")

    assert witness.doubled == {}
    assert all(len(tale.owners) == 2 for tale in witness.tales.values()), "each began once more"


def test_kill_9_of_a_runner_restarts_that_stream_alone_in_place(streams):
    node = eight_on(streams, leads=False)
    victim, turns = streams.runners(node)[0], streams.turns(*EIGHT)

    os.kill(victim, signal.SIGKILL)
    wait(lambda: sum(streams.told(stream)["reconnects"] for stream in EIGHT) == 1, 10, "a new runner")
    streams.wait_streaming(*EIGHT)

    hurt = [stream for stream in EIGHT if streams.told(stream)["reconnects"]]
    assert len(hurt) == 1
    assert set(streams.homes().values()) == {node.name}, "in place"
    assert streams.turns(*EIGHT) == turns, "no other seat was made"
    assert len(streams.runners(node)) == 8
    assert "its runner was killed by signal 9" in node.log


def test_a_runner_that_is_stopped_is_missed_by_the_age_of_its_frames_and_killed(streams):
    node = eight_on(streams, leads=False, stall_s=2)
    victim, turns = streams.runners(node)[0], streams.turns(*EIGHT)
    before = {stream: streams.told(stream)["reconnects"] for stream in EIGHT}

    os.kill(victim, signal.SIGSTOP)
    seen: set[str] = set()

    def back() -> bool:
        told = {stream: streams.told(stream) for stream in EIGHT}
        seen.update(f"{row['state']}: {row['why']}" for row in told.values() if row["state"] != "streaming")
        return sum(row["reconnects"] - before[stream] for stream, row in told.items()) == 1 and not any(
            row["state"] != "streaming" for row in told.values()
        )

    wait(back, 15, "its next runner", row=lambda: seen)

    assert any("no frame for 2" in text for text in seen), seen
    assert not procfs.born(victim)
    assert set(streams.homes().values()) == {node.name}
    assert streams.turns(*EIGHT) == turns


def test_kill_9_of_the_spare_restarts_its_runners_in_place(streams):
    node = eight_on(streams, leads=False)
    (spare,) = streams.spares(node)
    runners, turns = streams.runners(node), streams.turns(*EIGHT)

    os.kill(spare, signal.SIGKILL)
    wait(lambda: all(streams.told(stream)["reconnects"] for stream in EIGHT), 20, "new runners")
    streams.wait_streaming(*EIGHT)

    assert not [pid for pid in (spare, *runners) if procfs.born(pid)], "nothing is left of them"
    assert set(streams.homes().values()) == {node.name}
    assert streams.turns(*EIGHT) == turns
    assert len(streams.runners(node)) == 8


def test_kill_9_of_the_processes_lane_leaves_nothing_and_its_streams_go_on(streams):
    node = eight_on(streams, leads=False)
    lane, spares, runners = node.pid_of("processes"), streams.spares(node), streams.runners(node)

    with Witness(streams.boards.url, EIGHT) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        os.kill(lane, signal.SIGKILL)
        wait(lambda: all(len(tale.owners) >= 2 for tale in witness.tales.values()), 30, "the next owners' results")

    assert not [pid for pid in (lane, *spares, *runners) if procfs.born(pid)]
    assert max(witness.longest().values()) < MOVED_S, witness.longest()
    assert witness.doubled == {}


def test_a_frozen_lane_is_replaced_and_no_frame_is_seen_twice(streams):
    node = eight_on(streams, leads=False)
    lane = node.pid_of("processes")

    with Witness(streams.boards.url, EIGHT) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        os.kill(lane, signal.SIGSTOP)
        wait(lambda: not procfs.born(lane), 30, "its end")
        wait(lambda: all(len(tale.owners) >= 2 for tale in witness.tales.values()), 30, "the next owners' results")

    assert witness.doubled == {}
