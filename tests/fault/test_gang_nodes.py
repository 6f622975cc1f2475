"""Nodes, leaders and brokers that fail under a gang on boards: it ends or goes on as one, and says why."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fault.boards import Boards, carriers, told, wait

pytestmark = pytest.mark.xdist_group("gang-nodes")
#: The first attempt waits to be hurt, the next one ends well.
ONCE = 'setsid sleep 600 & echo "begins $RANK.$JETQ_ATTEMPT"; [ "$JETQ_ATTEMPT" = 1 ] && sleep 600; exit 0'
#: Every attempt waits to be hurt.
EVER = 'setsid sleep 600 & echo "begins $RANK.$JETQ_ATTEMPT"; sleep 600'
#: Runs for so long, and ends well.
FOR_5_S = 'echo "begins $RANK.$JETQ_ATTEMPT"; sleep 5; echo "ends $RANK"'


@pytest.fixture
def boards(cluster: Boards) -> Iterator[Boards]:
    """Give three boards with a node on each, as whole as on the first day."""
    cluster.mend()
    yield cluster
    cluster.end_all()


def reserved(row) -> int:
    """Return how often it got its nodes."""
    return [entry["what"] for entry in row.history].count("reserved")


def stopping(boards, job) -> str:
    """Return the beginning of why a gang's members are asked to end."""
    found = boards.ledger.client.hget(f"{boards.ledger.prefix}job:{job.id}", "stopping")
    return " ".join(found.decode().split()[:6]) if found else ""


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def member_node(boards, job, *, but: str = ""):
    """Return a node that the gang runs on, not the head's, and not the one named."""
    return next(boards.by_name[name] for name in job.row().nodes[1:] if name != but)


def test_a_node_that_is_cut_off_while_a_gang_runs_is_named_within_10_s_and_a_new_attempt_follows(boards):
    job = boards.gang("sh", "-c", ONCE)
    boards.say(job, "begins", 3)
    lost = member_node(boards, job, but=boards.leader)
    number = "abc".index(lost.name) + 1

    boards.lan.pull(number)
    since_s = time.monotonic()
    wait(lambda: stopping(boards, job) == f"node {lost.name} was lost: no beat", 10, "it is named")
    boards.until(job, lambda row: row.state == "QUEUED", 15, "it waits again")
    assert time.monotonic() - since_s < 12, "mpirun, which waits for the daemon that was cut off, is not waited for"
    boards.wait_nothing_left(job)  # the node that is cut off has killed its own
    boards.mend()
    row = job.wait(40)

    assert (row.state, row.attempts) == ("SUCCEEDED", 1)
    boards.wait_nothing_left(job)


def test_an_agent_that_is_killed_and_rejoins_at_once_costs_the_whole_gang_an_attempt(boards):
    job = boards.gang("sh", "-c", EVER)
    boards.say(job, "begins", 3)
    flapping = member_node(boards, job)

    os.kill(flapping.pid_of("agent"), signal.SIGKILL)
    flapping.wait()
    boards.mend()
    boards.until(job, lambda row: f"node {flapping.name} was lost" in told(row), 10, "its loss is told")
    boards.say(job, ".2", 3)
    assert job.row().attempts == 1

    boards.ledger.client.hset(f"{boards.ledger.prefix}job:{job.id}", "tally", '{"attempt": 5, "infra": 5}')
    os.kill(boards.by_name[flapping.name].pid_of("agent"), signal.SIGKILL)
    row = job.wait(10)

    assert row.state == "FAILED"
    assert "all 5 retries for failures of nodes are used up" in row.error
    boards.mend()
    boards.wait_nothing_left(job)


def test_a_gang_outlives_a_leader_that_is_killed_while_it_runs(boards):
    leader = boards.by_name[boards.leader]
    boards.occupy(leader.name)
    job = boards.gang("sh", "-c", FOR_5_S, nodes=2)
    boards.say(job, "begins", 2)

    leader.power_off()
    row = job.wait(30)

    assert (row.state, row.attempts, reserved(row)) == ("SUCCEEDED", 0, 1)
    assert boards.leader != leader.name
    boards.wait_nothing_left(job)


def test_a_gang_outlives_a_leader_that_is_killed_while_it_prepares(boards):
    leader = boards.by_name[boards.leader]
    boards.occupy(leader.name)
    late = next(node for node in boards.by_name.values() if node is not leader)

    with frozen(late.pid_of("processes")):
        job = boards.gang("sh", "-c", FOR_5_S, nodes=2)
        boards.until(job, lambda row: row.state == "PREPARING", 10, "it prepares")
        leader.power_off()
    row = job.wait(40)

    assert (row.state, row.attempts, reserved(row)) == ("SUCCEEDED", 0, 1)
    boards.wait_nothing_left(job)


def test_a_gang_outlives_its_broker(boards):
    job = boards.gang("sh", "-c", FOR_5_S)
    boards.say(job, "begins", 3)

    boards.broker.kill()
    boards.broker.start()
    row = job.wait(30)

    assert (row.state, row.attempts, reserved(row)) == ("SUCCEEDED", 0, 1)
    boards.wait_nothing_left(job)


def test_a_gang_that_could_go_on_smaller_waits_where_its_checkpoints_are_not_shared_and_says_so(boards):
    job = boards.gang("sh", "-c", ONCE, nodes="2:3")
    boards.say(job, "begins", 3)

    member_node(boards, job).power_off()
    why = "it cannot go on with fewer than 3 nodes: its checkpoints are not on storage that all nodes share"
    boards.until(job, lambda row: why in told(row), 20, "it says why")
    boards.mend()
    row = job.wait(40)

    assert (row.state, row.attempts, len(row.nodes)) == ("SUCCEEDED", 1, 3)


def test_a_node_that_is_late_costs_nothing(boards):
    late = boards.by_name["b"]

    with frozen(late.pid_of("processes")):
        job = boards.gang("true")
        boards.until(job, lambda row: row.state == "PREPARING", 10, "it prepares")
        since_s = time.monotonic()
        wait(lambda: time.monotonic() - since_s > 5, 10, "some time")
    row = job.wait(30)

    assert (row.state, row.attempts) == ("SUCCEEDED", 0)


def test_a_lane_that_never_answers_is_replaced_and_no_retry_is_charged(boards):
    late = boards.by_name["b"]

    with frozen(late.pid_of("processes")):
        job = boards.gang("true")
        boards.until(job, lambda row: row.state == "QUEUED" and reserved(row), 40, "it waits again")
        row = job.row()
        assert not boards.left_of(job)
    assert "node b" in told(row)
    assert "no retry is charged" in told(row)
    assert job.wait(60).state == "SUCCEEDED"
    assert job.row().attempts == 0


def test_a_node_whose_process_cannot_be_killed_is_drained_and_its_slots_stay_held(boards):
    job = boards.gang("sh", "-c", ONCE)
    boards.say(job, "begins", 3)
    stuck = member_node(boards, job)
    member = next(held for held in boards.leases() if boards.ledger.job(held).nodes == [stuck.name])
    rank = next(pid for pid, line in carriers(job.id).items() if "sleep 600" in line and member in environ(pid))

    with freezer() as cage:
        (cage / "cgroup.procs").write_text(str(rank))
        (cage / "freezer.state").write_text("FROZEN")
        job.cancel()
        wait(lambda: "draining" in boards.state(stuck.name), 40, "it is drained")
        assert "could not be cleared up: processes" in boards.state(stuck.name)
        wait(lambda: [held for held in boards.leases() if held.startswith(job.id)] == [member], 15, "the others let go")
        assert job.state == "RUNNING"
    row = job.wait(20)

    assert row.state == "CANCELLED"
    boards.wait_nothing_left(job)
    boards.client._store.resume(stuck.name)


def environ(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")


@contextmanager
def freezer() -> Iterator[Path]:
    """Give a control group whose frozen processes outlive SIGKILL until they are thawed, as one in state D would."""
    cage = Path("/sys/fs/cgroup/freezer") / f"jetq-{os.getpid()}"
    cage.mkdir()
    try:
        yield cage
    finally:
        (cage / "freezer.state").write_text("THAWED")
        wait(lambda: not (cage / "cgroup.procs").read_text(), 10, "the cage is empty")
        cage.rmdir()
