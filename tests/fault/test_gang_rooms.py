"""Gangs that want much of a cluster that others use, too; and gangs that go on with fewer nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from jetq.errors import NeverFits
from tests.fault.boards import Boards, wait
from tests.fault.boards import boards as build

pytestmark = pytest.mark.xdist_group("gang-rooms")
#: Leaves a checkpoint, and waits to be hurt; the next attempt goes on from there.
RESUMES = """
echo "attempt $JETQ_ATTEMPT of $WORLD_SIZE from $(cat "$JETQ_CKPT_DIR/step" 2>/dev/null || echo 0)"
[ "$JETQ_ATTEMPT" != 1 ] && exit 0
mkdir -p "$JETQ_CKPT_DIR"; [ "$RANK" = 0 ] && echo 7 > "$JETQ_CKPT_DIR/step"
echo saved; sleep 600
"""
#: Takes the port it is told before its owner does.
SQUATTER = """
import socket, sys
held = []
for line in sys.stdin:
    held.append(socket.create_server(("", int(line))))
    print("held", flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Boards]:
    with build(tmp_path_factory.mktemp("boards"), ("nano1", "nano2", "orin")) as made:
        made.start_all(JETQ_SHARED=str(made.shared))
        yield made


@pytest.fixture
def boards(cluster: Boards) -> Iterator[Boards]:
    """Give three boards with a node on each, and a folder that all of them mount."""
    cluster.mend()
    yield cluster
    cluster.end_all()


def test_a_gang_of_2_to_3_that_loses_a_node_goes_on_smaller_from_its_checkpoint(boards):
    job = boards.gang("sh", "-c", RESUMES, nodes="2:3")
    boards.say(job, "saved", 3)
    lost = boards.by_name[job.row().nodes[1]]

    lost.power_off()
    row = job.wait(40)

    assert (row.state, row.attempts, len(row.nodes)) == ("SUCCEEDED", 1, 2)
    assert lost.name not in row.nodes
    assert [line.partition(": ")[2] for line in boards.lines(job)].count("attempt 2 of 2 from 7") == 2
    boards.mend()
    boards.wait_nothing_left(job)


def test_a_gang_of_all_nodes_starts_on_a_busy_cluster_and_short_work_runs_until_it_does(boards):
    naps = [boards.client.submit("fault.nap", 0.2) for _ in range(12)]
    for nap in naps:  # now it is known how long they take
        nap.wait(30)
    long = boards.client.submit(
        "fault.wait", str(boards.shared / "story"), "long", str(boards.shared / "go"), labels=["node=a"]
    )
    boards.until(long, lambda row: row.state == "RUNNING", 20, "the start of the long one")

    job = boards.gang("sh", "-c", 'echo "begins"', slots=2)
    naps = []

    def feed() -> int:
        """Keep more short work in the queue than there is room for, and return how much has ended."""
        done = sum(nap.row().ended for nap in naps)
        naps.extend(boards.client.submit("fault.nap", 0.2) for _ in range(max(0, 12 - len(naps) + done)))
        return done

    wait(lambda: feed() >= 12, 30, "short work goes on while the gang waits", row=job.row)
    assert job.state == "QUEUED"
    (boards.shared / "go").touch()
    wait(lambda: feed() and job.row().ended, 30, "the gang starts though there is always more to do", row=job.row)

    assert job.state == "SUCCEEDED"
    for nap in naps:
        nap.wait(30)


def test_a_gang_of_all_nodes_starts_when_the_endless_job_on_one_of_them_ends(boards):
    endless = boards.occupy("a")
    job = boards.gang("true", slots=2)
    row = boards.until(job, lambda row: "a" in row.reason and row.expected_at, 10, "it says why it waits")
    assert endless.id in row.reason

    endless.cancel()
    row = job.wait(20)

    assert row.state == "SUCCEEDED"
    assert row.started_at - endless.row().finished_at < 5


def test_a_gang_of_more_nodes_than_there_are_is_refused_at_once(boards):
    with pytest.raises(NeverFits, match="4 nodes"):
        boards.gang("true", nodes=4)


def test_two_gangs_with_their_heads_on_one_node_have_ports_of_their_own(boards):
    jobs = [
        boards.gang("sh", "-c", 'echo "port $MASTER_PORT"; sleep 600', nodes=1, labels=["node=a"]) for _ in range(2)
    ]
    for job in jobs:
        boards.say(job, "port", 1)

    ports = [boards.ports(job) for job in jobs]

    assert [len(held) for held in ports] == [1, 1]
    assert ports[0] != ports[1]
    for job, held in zip(jobs, ports, strict=True):
        assert f"0: port {held[0]}" in boards.lines(job)
        job.cancel()
    for job in jobs:
        boards.wait_nothing_left(job)


def test_a_port_that_somebody_takes_between_lease_and_start_costs_an_attempt_and_the_next_has_another(boards):
    squatters = [
        subprocess.Popen(
            board.command([sys.executable, "-c", SQUATTER]), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for board in boards.boards.values()
    ]
    try:
        job = boards.gang("true", launcher="torchrun", nodes=2)
        port = wait(lambda: boards.ports(job), 10, "its port is leased")[0]
        for squatter in squatters:
            print(port, file=squatter.stdin, flush=True)
            assert squatter.stdout.readline() == "held\n"
        row = job.wait(60)
    finally:
        for squatter in squatters:
            squatter.kill()
            squatter.communicate()

    assert (row.state, row.attempts) == ("SUCCEEDED", 1), row
    assert any(f"port {port}" in entry["why"] for entry in row.history)
