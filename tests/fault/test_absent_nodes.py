"""Work that is moved, retried or cancelled while a node is away never runs on what that node left behind."""

from __future__ import annotations

import os
import signal

from jetq.model.needs import PRIORITY_STEPS
from jetq.store import keys

#: Silent nodes are dead after this (s).
DEAD = {"JETQ_DEAD_S": "2"}


def listed(ledger, node: str) -> int:
    """Return how many messages lie in the list of a node."""
    queue = keys.own_queue("tasks", node)
    return sum(ledger.client.llen(ledger.prefix + keys.with_priority(queue, step)) for step in PRIORITY_STEPS)


def test_a_retry_goes_to_a_living_node_though_all_that_had_its_job_are_dead(
    start_node, send, ledger, story, end_of, wait_until
):
    nodes = {"a": start_node("a", **DEAD)}
    job = send("fault.retry", str(story), "r", 3)
    wait_until(lambda: story.told("start")["r"] == 1, what="its first run")
    nodes |= {"b": start_node("b", **DEAD), "c": start_node("c", **DEAD)}

    nodes["a"].power_off()
    wait_until(lambda: ledger.job(job).state == "WAITING", within_s=30, what="the retry of its second run")
    second = ledger.job(job).history[-1]["node"]
    nodes[second].power_off()

    row = end_of(job)[0]
    last = next(name for name in nodes if name not in ("a", second))
    assert (row.state, row.result, row.nodes, row.attempts) == ("SUCCEEDED", last, [last], 1)
    assert [(h["what"], h["node"]) for h in row.history] == [("lost", "a"), ("again", second)]
    assert story.told("start") == {"r": 3}
    assert [listed(ledger, name) for name in nodes] == [0, 0, 0]


def test_what_was_cancelled_while_its_node_was_down_does_not_run_when_it_returns(
    start_node, app, send, ledger, story, end_of, wait_until, pops
):
    node = start_node("a")
    running = send("fault.work", str(story), "running", 600)
    wait_until(lambda: story.told("start") == {"running": 1}, what="its start")
    os.kill(node.pid_of("tasks"), signal.SIGSTOP)
    wait_until(lambda: not pops("jetq-a-tasks"), what="the end of its blocking pop: nothing is popped any more")
    waiting = [send("fault.work", str(story), key, 0) for key in ("assigned", "shared")]
    assert [ledger.job(job).state for job in waiting] == ["ASSIGNED", "QUEUED"]

    node.power_off()
    for job in (running, *waiting):
        ledger.cancel(job, "no longer wanted")
    start_node("a")

    assert [row.state for row in end_of(running, *waiting, send("fault.quick", "x"))[:3]] == ["CANCELLED"] * 3
    wait_until(lambda: not any(ledger.queues().values()), what="empty queues")
    assert story.told("start") == {"running": 1}
    assert ledger.nodes()[0].used == 0
    wait_until(lambda: {app.AsyncResult(job).state for job in (running, *waiting)} == {"REVOKED"}, what="Celery's word")


def test_what_was_cancelled_while_its_node_was_down_is_not_picked_again(
    start_node, send, ledger, story, end_of, wait_until
):
    node = start_node("a", **DEAD)
    job = send("fault.work", str(story), "p", 600)
    wait_until(lambda: story.told("start") == {"p": 1}, what="its start")
    start_node("b", **DEAD)

    node.power_off()
    ledger.cancel(job, "no longer wanted")

    assert [row.state for row in end_of(job, send("fault.quick", "x"))] == ["CANCELLED", "SUCCEEDED"]
    assert story.told("start") == {"p": 1}
