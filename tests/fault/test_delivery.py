"""Each job runs once, whatever happens to connections, timeouts and processes between its publish and its end."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress

import pytest

from jetq import ids
from jetq.clock import boot_s
from jetq.errors import PublishUnknown
from tests.fault.probes import alive, cut_all

#: Connections are cut for so long (s).
BLIP_S = 1.0
#: An app whose work takes longer than what Celery waits for an acknowledgement before it delivers a message again. Its
#: workers look for such messages every 10 s.
SHOP = """
import celery
app = celery.Celery("shop", broker_transport_options={"visibility_timeout": 1})
app.conf.task_acks_late = True
"""
LOOK_S = 10.0


def test_a_blip_of_all_connections_doubles_no_work_and_stops_none(
    start_node, send, ledger, story, wait_until, end_of, clean_broker, tmp_path
):
    start_node("a", "--slots", "2")
    long = send("fault.wait", str(story), "long", str(tmp_path / "gate"))
    wait_until(lambda: story.told("start") == Counter(["long"]), what="its start")
    sent = []

    over_s = boot_s() + BLIP_S
    while boot_s() < over_s:
        job = ids.new_job_id()
        cut_all(clean_broker)
        with suppress(PublishUnknown):
            send("fault.work", str(story), job, 0, task_id=job)
        send("fault.work", str(story), job, 0, task_id=job)
        sent.append(job)
    sent.append(send("fault.work", str(story), "after", 0))

    end_of(*sent)
    assert ledger.job(long).state == "RUNNING"
    (tmp_path / "gate").touch()
    rows = end_of(long, *sent)
    assert {(row.state, row.attempts) for row in rows} == {("SUCCEEDED", 0)}
    assert story.told("start") == story.told("end") == Counter(["long", *sent[:-1], "after"])


def test_work_that_outlasts_the_visibility_timeout_of_its_app_runs_once(
    start_node, send, ledger, story, wait_until, end_of, app_dir, tmp_path
):
    (app_dir / "shop.py").write_text(SHOP)
    for name in "abc":
        start_node(name, "--app", "shop:app", "--slots", "1", up=False)
    wait_until(lambda: [n.state for n in ledger.nodes()] == ["up"] * 3, within_s=60, what="three nodes")
    job = send("fault.wait", str(story), "p", str(tmp_path / "gate"))
    wait_until(lambda: story.told("start"), what="its start")

    seen_s = boot_s() + LOOK_S + 2
    wait_until(lambda: boot_s() > seen_s, within_s=LOOK_S + 5, what="a look of each worker")
    (tmp_path / "gate").touch()

    (row,) = end_of(job)
    assert (row.state, row.attempts) == ("SUCCEEDED", 0)
    assert story.told("start") == story.told("end") == Counter("p")


@pytest.mark.parametrize("victim", ["agent", "lane", "pool child"])
def test_a_kill_in_a_node_leaves_nothing_of_its_work_and_all_of_it_ends_on_a_live_one(
    start_node, send, ledger, story, wait_until, pops, end_of, tmp_path, victim
):
    note, gate = tmp_path / "pids", tmp_path / "gate"
    node = start_node("a", "--slots", "3")
    runs = send("fault.family", str(note), 600)
    tree = [int(pid) for pid in wait_until(lambda: note.exists() and note.read_text().split(), what="its tree")]
    start_node("b", "--slots", "1")
    full = send("fault.wait", str(story), "full", str(gate), jetq={"labels": ["node=b"]})
    lane = node.pid_of("tasks")
    os.kill(lane, signal.SIGSTOP)
    wait_until(lambda: not pops("jetq-a-tasks"), what="the end of its blocking pop: nothing is popped any more")
    waiting = [send("fault.work", str(story), key, 0) for key in "pq"]
    assert [ledger.job(job).nodes for job in waiting] == [["a"], ["a"]]

    os.kill({"agent": node.pid_of("agent"), "lane": lane, "pool child": tree[0]}[victim], signal.SIGKILL)
    if victim == "pool child":
        os.kill(lane, signal.SIGCONT)
    gate.touch()

    *rows, _ = end_of(runs, *waiting, full, within_s=20)
    assert [(row.state, row.attempts) for row in rows] == [("SUCCEEDED", 1), ("SUCCEEDED", 0), ("SUCCEEDED", 0)]
    assert len(note.read_text().splitlines()) == 2
    assert story.told("start") == story.told("end") == Counter(["p", "q", "full"])
    assert not any(alive(pid) for pid in tree)
    if victim == "agent":
        assert {row.nodes[0] for row in rows} == {"b"}
        assert (node.wait(), node.left()) == (1, [])


@pytest.mark.parametrize("victim", ["lane", "pool child"])
def test_a_second_run_begins_when_nothing_is_left_of_the_first(start_node, send, wait_until, end_of, tmp_path, victim):
    note = tmp_path / "pids"
    node = start_node("a")
    job = send("fault.heir", str(note), 600)
    child, *_ = wait_until(lambda: note.exists() and note.read_text().split(), what="its tree")

    os.kill(node.pid_of("tasks") if victim == "lane" else int(child), signal.SIGKILL)

    (row,) = end_of(job)
    assert (row.state, row.attempts, row.result) == ("SUCCEEDED", 1, [])
