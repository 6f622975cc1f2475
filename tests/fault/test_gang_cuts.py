"""A broker lost power, and what it knew of a gang's start: the gang runs on, or once more, never twice at once."""

from __future__ import annotations

import os
import signal

import pytest

from jetq import JetQ, process
from tests.fault.test_cut_file import OPTIONS, Disk

#: A rank that tells of its start and its end, takes a moment to end, and ends well in its second run.
RANK = """
trap 'sleep 1; echo "end $JETQ_TOKEN" >> {story}; exit 1' TERM
echo "start $JETQ_TOKEN" >> {story}
[ $(grep -c start {story}) = {last} ] || while :; do sleep 0.1; done
echo "end $JETQ_TOKEN" >> {story}
"""


@pytest.fixture
def scene(start_broker, start_node, wait_until):
    """Give a cluster of one node whose broker may lose its last writes, its disk, and the node."""
    broker = start_broker(*OPTIONS, appendonly=True)
    client = JetQ(broker.url)
    node = start_node("a", "--slots", "4", up=False, url=broker.url)
    wait_until(lambda: [row.state for row in client.nodes()] == ["up"], within_s=60, what="the node")
    return client, Disk(broker), node


def gang(client, story, last):
    return client.gang(["sh", "-c", RANK.format(story=story, last=last)], launcher="mpirun", as_root=True)


def held(node, send):
    """Do something while the agent of a node, which leads, does nothing."""
    os.kill(node.pid_of("agent"), signal.SIGSTOP)
    try:
        return send()
    finally:
        os.kill(node.pid_of("agent"), signal.SIGCONT)


def test_a_start_that_a_cut_took_away_ends_before_the_gang_starts_again(scene, story, wait_until):
    client, disk, node = scene
    job, cut = held(node, lambda: (gang(client, story, last=2), disk.size))
    wait_until(lambda: story.lines("start"), within_s=20, what="its first start")

    disk.lose_power(cut)

    row = job.wait(60)
    assert (row.state, row.attempts) == ("SUCCEEDED", 0)
    told = [line.split() for line in story.path.read_text().splitlines()]
    assert [what for what, _ in told] == ["start", "end", "start", "end"]
    assert told[0][1] == told[1][1] != told[2][1] == told[3][1]
    assert process.carriers(JETQ_JOB_ID=job.id) == []
    wait_until(lambda: [(n.used, n.running) for n in client.nodes()] == [(0, [])], what="an idle node")


def test_a_gang_goes_on_though_a_cut_took_away_that_it_had_begun(scene, story, wait_until, tmp_path):
    client, disk, node = scene
    client.gang(["true"], launcher="mpirun", as_root=True).wait(20)
    os.kill(node.pid_of("processes"), signal.SIGSTOP)
    job = gang(client, story, last=9)
    wait_until(lambda: job.row().state == "RESERVED", what="its nodes")
    cut = disk.size
    os.kill(node.pid_of("processes"), signal.SIGCONT)
    wait_until(lambda: story.lines("start"), within_s=20, what="its start")

    disk.lose_power(cut)

    wait_until(lambda: job.row().state == "RUNNING", within_s=20, what="its word that it has begun")
    assert len(story.lines("start")) == 1
    job.cancel()
    row = job.wait(20)
    assert row.state == "CANCELLED"
    assert len(story.lines("start")) == 1
