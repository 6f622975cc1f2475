"""A broker's machine lost power, and with it the last writes: nothing that runs is lost, no token is granted twice."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from jetq.store.redis import RedisStore, connect

#: What is on the disk is whole at any moment, and is never written anew.
OPTIONS = ("--appendfsync", "always", "--aof-load-truncated", "yes", "--auto-aof-rewrite-percentage", "0")
#: Bytes of the first lost command that are still there: the file ends in the middle of it.
TORN = 9


class Disk:
    """The file of a broker."""

    def __init__(self, broker) -> None:
        self.broker = broker
        (self._file,) = (broker.folder / "appendonlydir").glob("*.incr.aof")

    @property
    def size(self) -> int:
        """Where it ends now (bytes)."""
        return self._file.stat().st_size

    def lose_power(self, at: int) -> None:
        """Kill the broker, cut off what was written after ``at``, and start the broker again."""
        self.broker.kill()
        os.truncate(self._file, at + TORN)
        self.broker.start()


@pytest.fixture
def scene(start_broker, start_node, send_to, wait_until):
    """Give a ledger whose broker may lose its last writes, its disk, ``send``, and a node of 4 slots."""
    broker = start_broker(*OPTIONS, appendonly=True)
    ledger = RedisStore(connect(broker.url), "jetq")
    node = start_node("a", "--slots", "4", up=False, url=broker.url)
    wait_until(lambda: [row.state for row in ledger.nodes()] == ["up"], within_s=60, what="the node")
    return ledger, Disk(broker), send_to(broker.url), node


def state(ledger, job: str) -> str:
    row = ledger.job(job)
    return row.state if row else ""


def pops(ledger) -> bool:
    return any(row["name"] == "jetq-a-tasks" and "b" in row["flags"] for row in ledger.client.client_list())


def no_token_ran_twice(story) -> bool:
    """Whether each run had a token of its own."""
    return set(Counter(token for _, token in story.lines("start")).values()) == {1}


def test_after_a_cut_what_runs_goes_on_and_what_was_lost_runs_again_under_another_token(
    scene, story, wait_until, tmp_path
):
    ledger, disk, send, node = scene
    first, last = tmp_path / "first", tmp_path / "last"
    kept = send("fault.wait", str(story), "kept", str(last))
    ran = send("fault.wait", str(story), "ran", str(first))
    wait_until(lambda: story.told("start") == Counter(["kept", "ran"]), what="their start")
    os.kill(node.pid_of("tasks"), signal.SIGSTOP)
    wait_until(lambda: not pops(ledger), what="the end of its blocking pop: nothing is popped any more")
    claimed = send("fault.wait", str(story), "claimed", str(last))
    done = send("fault.work", str(story), "done", 0)
    cut = disk.size
    os.kill(node.pid_of("tasks"), signal.SIGCONT)
    first.touch()
    wait_until(lambda: {state(ledger, job) for job in (ran, done)} == {"SUCCEEDED"}, what="ends that will be lost")
    wait_until(lambda: state(ledger, claimed) == "RUNNING", what="a claim that will be lost")
    new = send("fault.work", str(story), "new", 0)
    wait_until(lambda: state(ledger, new) == "SUCCEEDED", what="the end of a job that will be lost")

    disk.lose_power(cut)

    lost = {job: state(ledger, job) for job in (kept, ran, claimed, done, new)}
    assert lost == {kept: "RUNNING", ran: "RUNNING", claimed: "ASSIGNED", done: "ASSIGNED", new: ""}
    wait_until(lambda: "broker.resynced" in node.log, within_s=20, what="the node's word of what runs")
    assert send("fault.work", str(story), "new", 0, task_id=new) == new
    wait_until(lambda: {state(ledger, job) for job in (ran, done, new)} == {"SUCCEEDED"}, within_s=20, what="the ends")
    assert (state(ledger, kept), state(ledger, claimed)) == ("RUNNING", "RUNNING")
    last.touch()
    wait_until(lambda: {state(ledger, job) for job in (kept, claimed)} == {"SUCCEEDED"}, what="the end of what ran on")
    assert "broker.resync" in node.log and "claims.made_again" in node.log
    twice = {"ran": 2, "done": 2, "new": 2}
    assert story.told("start") == story.told("end") == Counter({"kept": 1, "claimed": 1, **twice})
    assert no_token_ran_twice(story)
    assert [ledger.job(job).attempts for job in (kept, ran, claimed, done, new)] == [0] * 5


def test_a_job_that_a_cut_took_away_while_it_ran_is_sent_again_and_has_one_outcome(scene, story, wait_until, tmp_path):
    ledger, disk, send, node = scene
    end = tmp_path / "end"
    cut = disk.size
    job = send("fault.wait", str(story), "p", str(end))
    wait_until(lambda: story.told("start")["p"] == 1, what="its start")

    disk.lose_power(cut)

    assert state(ledger, job) == ""
    wait_until(lambda: "broker.resynced" in node.log, within_s=20, what="the node's word of what runs")
    send("fault.wait", str(story), "p", str(end), task_id=job)
    wait_until(lambda: story.told("start")["p"] == 2, within_s=20, what="its second start")
    end.touch()
    wait_until(lambda: story.told("end")["p"] == 2 and state(ledger, job) == "SUCCEEDED", what="both ends")
    wait_until(lambda: node.log.count("settle.refused") == 1, what="no to the first of them")
    assert no_token_ran_twice(story)
    wait_until(lambda: [(n.used, n.running) for n in ledger.nodes()] == [(0, [])], what="an idle node")
