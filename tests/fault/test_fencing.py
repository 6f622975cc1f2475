"""A node that others may have given up has ended its work before, and comes back; a broker that is down fences none."""

from __future__ import annotations

import os
import signal

import pytest

from jetq.clock import boot_s
from jetq.store.redis import RedisStore, connect
from tests.fault.probes import alive, pids

#: A node that is silent so long is dead in these tests, but for those that take the usual 5 (s).
DEAD_S = 2.0


@pytest.fixture
def quick_node(start_node):
    """Give ``quick_node(name, *flags)``: a node whose times are short."""
    return lambda *flags, **how: start_node(*(flags or ("a",)), JETQ_DEAD_S=str(DEAD_S), **how)


def all_gone(tree: list[int]) -> bool:
    return not any(alive(pid) for pid in tree)


def epoch(ledger) -> str:
    return ledger.nodes()[0].epoch


def test_a_node_whose_agent_is_frozen_ends_its_work_in_time_and_comes_back(
    start_node, send, ledger, note, wait_until, node_state
):
    node = start_node()
    first = epoch(ledger)
    send("fault.hold", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")
    agent, lane = node.pid_of("agent"), node.pid_of("tasks")

    os.kill(agent, signal.SIGSTOP)
    frozen_s = boot_s()
    wait_until(lambda: all_gone([*tree, lane]), what="the end of its work")
    took_s = boot_s() - frozen_s
    os.kill(agent, signal.SIGCONT)

    assert took_s < 5, "before anybody may declare it dead"
    assert took_s > 2, "it has its time"
    wait_until(lambda: epoch(ledger) != first and node_state("a") == "up", within_s=30, what="the next run")
    assert node.popen.poll() is None
    assert "node.over" in node.log and "guard.rejoins" in node.log


def test_a_job_of_a_fenced_node_runs_again(quick_node, send, ledger, note, wait_until):
    node = quick_node()
    job = send("fault.hold_first", str(note), 600)
    wait_until(lambda: pids(note), what="the task's start")

    agent = node.pid_of("agent")
    os.kill(agent, signal.SIGSTOP)
    wait_until(lambda: all_gone(pids(note)), what="the end of its work")
    os.kill(agent, signal.SIGCONT)

    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", within_s=30, what="the second run")
    assert ledger.job(job).result == "second"


def test_a_run_that_was_declared_dead_kills_all_and_rejoins(quick_node, send, ledger, note, wait_until, node_state):
    node = quick_node()
    first = epoch(ledger)
    send("fault.hold", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")

    ledger.client.hset(f"{ledger.prefix}node:a", "state", "dead")

    wait_until(lambda: all_gone(tree), what="the end of its work")
    wait_until(lambda: epoch(ledger) != first and node_state("a") == "up", within_s=30, what="the next run")
    assert node.popen.poll() is None


def test_a_ledger_that_has_lost_everything_gets_its_nodes_back(quick_node, ledger, wait_until, node_state):
    node = quick_node()

    ledger.client.flushall()

    wait_until(lambda: node_state("a") == "up", within_s=30, what="the next run")
    assert node.popen.poll() is None


def test_a_lane_that_hangs_is_replaced_and_its_work_goes_on(quick_node, send, ledger, note, wait_until, node_state):
    node = quick_node()
    first = epoch(ledger)
    job = send("fault.hold_first", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")
    lane = node.pid_of("tasks")

    os.kill(lane, signal.SIGSTOP)

    wait_until(lambda: node_state("a") == "starting", within_s=2 * DEAD_S, what="no new work for it")
    wait_until(lambda: all_gone([*tree, lane]), within_s=20, what="the end of the lane")
    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", within_s=30, what="the second run")
    wait_until(lambda: node_state("a") == "up", what="the new lane")
    assert epoch(ledger) == first
    assert "lane.hangs" in node.log


def test_a_frozen_broker_fences_nobody(start_broker, start_node, app_dir, send_to, note, wait_until):
    server = start_broker()
    ledger = RedisStore(connect(server.url), "jetq")
    node = start_node(up=False, url=server.url)
    wait_until(lambda: [row.state for row in ledger.nodes()] == ["up"], within_s=60, what="the node")
    job = send_to(server.url)("fault.hold", str(note), 8)
    tree = wait_until(lambda: pids(note), what="the task's start")
    first = epoch(ledger)

    server.freeze()
    thaw_s = boot_s() + 10
    wait_until(lambda: boot_s() > thaw_s, within_s=15, what="ten seconds")
    held = [alive(pid) for pid in (node.pid_of("agent"), node.pid_of("tasks"))]
    server.thaw()

    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", within_s=20, what="the task's end")
    assert held == [True, True]
    assert pids(note) == tree, "its body ran once"
    assert (ledger.job(job).attempts, epoch(ledger)) == (0, first)


def test_a_broker_that_was_killed_finds_its_nodes_at_work(start_broker, start_node, send_to, note, wait_until):
    server = start_broker(appendonly=True)
    ledger = RedisStore(connect(server.url), "jetq")
    node = start_node(up=False, url=server.url)
    wait_until(lambda: [row.state for row in ledger.nodes()] == ["up"], within_s=60, what="the node")
    job = send_to(server.url)("fault.hold", str(note), 12)
    tree = wait_until(lambda: pids(note), what="the task's start")
    first = epoch(ledger)

    server.kill()
    back_s = boot_s() + 8
    wait_until(lambda: boot_s() > back_s, within_s=15, what="eight seconds")
    server.start()
    after = send_to(server.url)("fault.quick", "x")

    wait_until(lambda: ledger.job(after).state == "SUCCEEDED", within_s=10, what="new work")
    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", within_s=20, what="the task's end")
    assert pids(note) == tree, "its body ran once"
    assert (ledger.job(job).attempts, epoch(ledger)) == (0, first)
    assert "node.over" not in node.log


@pytest.mark.parametrize("end", ["far", "near"])
def test_a_node_that_is_cut_off_ends_its_work_at_four_seconds_and_comes_back(
    start_broker, start_node, send_to, note, wait_until, host, end
):
    server = start_broker("--bind", "127.0.0.1", host.ours, "--protected-mode", "no")
    ledger = RedisStore(connect(server.url), "jetq")
    node = start_node(up=False, url=f"redis://{host.ours}:{server.port}/0", host=host)
    wait_until(lambda: [row.state for row in ledger.nodes()] == ["up"], within_s=60, what="the node")
    send_to(server.url)("fault.hold", str(note), 600)
    tree = wait_until(lambda: pids(note), what="the task's start")
    first, lane = epoch(ledger), node.pid_of("tasks")

    host.pull(end)
    cut_s = boot_s()
    wait_until(lambda: all_gone([*tree, lane]), what="the end of its work")
    took_s = boot_s() - cut_s
    host.plug(end)

    assert 2.5 < took_s < 4.5
    wait_until(
        lambda: [row.state for row in ledger.nodes()] == ["up"] and epoch(ledger) != first,
        within_s=30,
        what="the next run",
    )
    assert node.popen.poll() is None


def test_a_broker_without_memory_fences_nobody(quick_node, send, ledger, note, wait_until):
    node = quick_node()
    job = send("fault.hold", str(note), 4 * DEAD_S)
    tree = wait_until(lambda: pids(note), what="the task's start")
    first = epoch(ledger)

    ledger.client.config_set("maxmemory", 1)
    try:
        again_s = boot_s() + 3 * DEAD_S
        wait_until(lambda: boot_s() > again_s, what="the time")
    finally:
        ledger.client.config_set("maxmemory", 0)

    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", within_s=30, what="the task's end")
    assert pids(note) == tree, "its body ran once"
    assert (ledger.job(job).attempts, epoch(ledger)) == (0, first)
    assert "has no memory left" in node.log
