"""However a node ends, nothing of it is left behind, and its work goes on."""

from __future__ import annotations

import os
import signal

import pytest

from jetq.store.redis import RedisStore, connect
from tests.fault.probes import alive, pids


@pytest.mark.parametrize("victim", ["agent", "guard"])
def test_a_node_whose_agent_or_guard_is_killed_leaves_no_process(start_node, send, note, wait_until, victim):
    node = start_node()
    send("fault.hold", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")

    os.kill(node.guard if victim == "guard" else node.pid_of("agent"), signal.SIGKILL)

    assert node.wait() == (-signal.SIGKILL if victim == "guard" else 1)
    wait_until(lambda: node.left() == [], what="the end of all its processes")
    assert not any(alive(pid) for pid in tree)


def test_a_job_of_a_node_that_was_killed_runs_again_on_its_next_run(start_node, send, ledger, note, wait_until):
    node = start_node()
    job = send("fault.hold_first", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")
    os.kill(node.guard, signal.SIGKILL)
    node.wait()

    start_node()

    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", what="the second run")
    assert not any(alive(pid) for pid in tree)
    assert ledger.job(job).attempts == 1


def test_a_killed_lane_takes_its_tree_along_and_its_job_runs_again(start_node, send, ledger, note, wait_until):
    node = start_node()
    job = send("fault.hold_first", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")

    os.kill(node.pid_of("tasks"), signal.SIGKILL)

    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", within_s=30, what="the second run")
    assert ledger.job(job).result == "second"
    assert ledger.job(job).attempts == 1
    assert not any(alive(pid) for pid in tree)
    assert node.popen.poll() is None


def test_sigterm_lets_running_work_end_and_says_the_node_is_gone(
    start_node, send, ledger, note, wait_until, node_state
):
    node = start_node()
    job = send("fault.hold", str(note), 2)
    wait_until(lambda: pids(note), what="the task's start")

    os.kill(node.guard, signal.SIGTERM)

    assert node.wait() == 0
    assert ledger.job(job).state == "SUCCEEDED"
    assert node_state("a") == "gone"
    assert node.left() == []


def test_work_longer_than_the_grace_is_killed_and_picked_again_free_of_charge(
    start_node, send, ledger, note, wait_until
):
    node = start_node("a", "--grace", "0.5")
    job = send("fault.hold", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")

    os.kill(node.guard, signal.SIGTERM)

    assert node.wait() == 0
    assert ledger.job(job).state == "QUEUED"
    assert ledger.job(job).attempts == 0
    assert not any(alive(pid) for pid in tree)


def test_ctrl_c_stops_a_node_and_a_second_one_does_not_wait(start_node, send, note, wait_until, node_state):
    node = start_node()
    send("fault.hold", str(note), 600)
    wait_until(lambda: pids(note), what="the task's start")

    os.killpg(node.guard, signal.SIGINT)
    wait_until(lambda: node_state("a") == "stopping", what="the stop")
    os.killpg(node.guard, signal.SIGINT)

    assert node.wait() == 0
    assert node.left() == []


def test_what_a_stopping_node_has_not_begun_goes_to_another(start_node, send, ledger, note, wait_until):
    node = start_node()
    for _ in range(2):
        send("fault.hold", str(note), 600)
    wait_until(lambda: pids(note, runs=2), what="both tasks' start")
    waiting = send("fault.quick", "x")

    os.kill(node.guard, signal.SIGTERM)
    start_node("b")

    wait_until(lambda: ledger.job(waiting).state == "SUCCEEDED", what="the waiting job")
    assert ledger.job(waiting).nodes == ["b"]


def test_a_second_run_of_a_node_takes_over_at_once(start_node, ledger, wait_until, node_state):
    first = start_node()
    epoch = ledger.nodes()[0].epoch

    second = start_node(up=False)

    assert first.wait() == 1
    wait_until(lambda: node_state("a") == "up" and ledger.nodes()[0].epoch != epoch, within_s=30, what="the new run")
    assert second.popen.poll() is None
    assert first.guard not in [int(p) for p in os.listdir("/proc") if p.isdigit()]


def test_a_node_outlives_a_broker_that_is_away(start_broker, start_node, wait_until):
    server = start_broker(appendonly=True)
    node = start_node(up=False, url=server.url)
    own = RedisStore(connect(server.url), "jetq")
    wait_until(lambda: [row.state for row in own.nodes()] == ["up"], within_s=60, what="the lane")

    server.kill()
    wait_until(lambda: "broker.away" in node.log, within_s=20, what="the outage's line")
    server.start()

    wait_until(lambda: "broker.back" in node.log, within_s=20, what="the return's line")
    assert node.log.count("broker.away") == 1
    assert "Warning: " not in node.log  # what Celery would do to unacknowledged messages is no concern of the ledger's
    assert node.popen.poll() is None
