"""Work whose node, message or leader is lost ends once all the same. What ran is told by the bodies themselves."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from jetq import wire
from jetq.config import Settings
from jetq.store import keys
from jetq.store.redis import RedisStore, connect


def ended(ledger, jobs: list[str]) -> bool:
    return all(ledger.job(job).state == "SUCCEEDED" for job in jobs)


def test_the_jobs_of_a_node_that_lost_power_end_once_elsewhere(start_node, send, ledger, story, wait_until):
    lost = start_node("a")
    start_node("b")
    jobs = [send("fault.work", str(story), key, 5) for key in "pqrstu"]
    wait_until(lambda: len(story.told("start")) == 4, what="two bodies on each node")

    lost.power_off()

    wait_until(lambda: ended(ledger, jobs), within_s=40, what="the end of all jobs")
    assert story.told("end") == Counter("pqrstu")
    assert sorted(ledger.job(job).attempts for job in jobs) == [0, 0, 0, 0, 1, 1]
    assert [(n.name, n.state, n.used) for n in ledger.nodes()] == [("a", "dead", 0), ("b", "up", 0)]


def test_the_next_leader_goes_on_where_the_first_was_killed(start_node, send, ledger, story, wait_until):
    first = start_node("a")
    wait_until(lambda: "leader.elected" in first.log, what="the first leader")
    second = start_node("b")
    jobs = [send("fault.work", str(story), key, 5) for key in "pqrs"]
    wait_until(lambda: len(story.told("start")) == 4, what="four bodies")

    first.power_off()

    wait_until(lambda: ended(ledger, jobs), within_s=40, what="the end of all jobs")
    assert "leader.elected" in second.log
    assert story.told("end") == Counter("pqrs")


@pytest.mark.parametrize("queue", ["node.a", keys.shared_queue("any")])
def test_a_message_deleted_behind_our_back_is_sent_again(start_node, send, ledger, story, wait_until, pops, queue):
    node = start_node("a", "--slots", "1")
    os.kill(node.pid_of("tasks"), signal.SIGSTOP)
    wait_until(lambda: not pops("jetq-a-tasks"), what="the end of its blocking pop: nothing is popped any more")
    held = [send("fault.work", str(story), "p", 0)]
    more = [send("fault.work", str(story), "q", 0)]
    key = ledger.prefix + keys.with_priority(queue, 3)
    wait_until(lambda: ledger.client.llen(key) == 1, what="the message")

    ledger.client.delete(key)
    os.kill(node.pid_of("tasks"), signal.SIGCONT)

    wait_until(lambda: ended(ledger, held + more), within_s=20, what="the end of both jobs")
    assert story.told("end") == Counter("pq")
    assert [ledger.job(job).attempts for job in held + more] == [0, 0]


def test_a_countdown_survives_the_leader(start_node, send, ledger, story, wait_until):
    first = start_node("a")
    start_node("b")
    job = send("fault.work", str(story), "p", 0, countdown=4)

    first.power_off()

    wait_until(lambda: ended(ledger, [job]), within_s=30, what="the end of the job")
    assert story.told("end") == Counter("p")


def test_a_drained_node_ends_what_runs_and_gets_nothing_new(start_node, jetq, send, ledger, story, wait_until):
    start_node("a")
    runs = send("fault.work", str(story), "p", 6)
    wait_until(lambda: story.told("start") == Counter("p"), what="its start")

    jetq("node", "drain", "a", "--why", "new kernel")
    waits = send("fault.work", str(story), "q", 0)

    wait_until(lambda: ledger.nodes()[0].state == "drained", within_s=20, what="an empty node")
    assert (ledger.job(runs).state, ledger.job(waits).state) == ("SUCCEEDED", "QUEUED")
    jetq("node", "resume", "a")
    wait_until(lambda: ended(ledger, [waits]), within_s=20, what="the end of what waited")


def test_what_outlives_the_grace_of_a_drain_runs_again_elsewhere_for_free(
    start_node, jetq, send, ledger, story, wait_until
):
    start_node("a")
    job = send("fault.hold_first", str(story), 600)
    wait_until(story.path.exists, what="its start")
    start_node("b")

    assert jetq("node", "drain", "a", "--grace", "1", "--wait").stdout == "a drained\n"

    wait_until(lambda: ended(ledger, [job]), within_s=20, what="its second run")
    row = ledger.job(job)
    assert (row.result, row.nodes, row.attempts) == ("second", ["b"], 0)
    assert [h["why"] for h in row.history] == ["its node was drained"]


def test_a_restart_of_the_broker_loses_no_job_and_starts_none_anew(
    start_node, start_broker, story, wait_until, tmp_path
):
    broker = start_broker("--appendfsync", "always", appendonly=True)
    ledger = RedisStore(connect(broker.url), "jetq")
    app = wire.create_app(Settings.from_environ(broker_url=broker.url), current=False)
    node = start_node("a", up=False, url=broker.url)
    wait_until(lambda: [n.state for n in ledger.nodes()] == ["up"], within_s=60, what="the node")
    jobs = [app.send_task("fault.work", (str(story), key, 6)).id for key in "pq"]
    wait_until(lambda: len(story.told("start")) == 2, what="two bodies")

    broker.kill()
    broker.start()

    jobs.append(app.send_task("fault.work", (str(story), "r", 0)).id)
    wait_until(lambda: ended(ledger, jobs), within_s=30, what="the end of all jobs")
    assert story.told("start") == story.told("end") == Counter("pqr")
    assert "broker.resync" in node.log
    assert "broker.resynced" in node.log
