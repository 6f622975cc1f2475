"""What a node has loaded decides what it gets: nodes with different tasks, a rolling upgrade, a restart with less."""

from __future__ import annotations

from pathlib import Path

import pytest

EXTRA = """
import os
from celery import shared_task

@shared_task(name="extra.where")
def where():
    return os.environ["JETQ_NODE"]
"""


@pytest.fixture
def extra_dir(tmp_path: Path) -> Path:
    """Give a folder with one task more."""
    (tmp_path / "extra" / "tasks").mkdir(parents=True)
    (tmp_path / "extra" / "tasks" / "extra.py").write_text(EXTRA)
    return tmp_path / "extra"


def test_jobs_run_on_the_node_that_knows_their_task(start_node, extra_dir, send, ledger, wait_until):
    start_node("a")
    start_node("b", "--app-dir", str(extra_dir))

    jobs = [send("extra.where") for _ in range(6)]

    wait_until(lambda: all(ledger.job(job).ended for job in jobs), within_s=30, what="the jobs")
    assert {ledger.job(job).result for job in jobs} == {"b"}


def test_jobs_wait_for_the_only_node_that_knows_their_task(start_node, extra_dir, send, ledger, wait_until):
    start_node("a")
    knows = start_node("b", "--app-dir", str(extra_dir))
    knows.popen.terminate()
    knows.wait()

    job = send("extra.where")
    assert ledger.job(job).reason == "no live node knows its task"
    start_node("b", "--app-dir", str(extra_dir))

    wait_until(lambda: ledger.job(job).ended, within_s=30, what="the job")
    assert (ledger.job(job).result, ledger.job(job).attempts) == ("b", 0)


def test_a_job_sent_before_a_stranger_came_is_handed_on_by_it(start_node, extra_dir, send, ledger, wait_until):
    start_node("b", "--app-dir", str(extra_dir), "--slots", "1")
    busy = send("demo.nap", 60)
    jobs = [send("extra.where") for _ in range(3)]

    stranger = start_node("a")

    said = "node a does not know task extra.where"
    wait_until(lambda: all(ledger.job(job).history for job in jobs), within_s=30, what="the messages came back")
    assert {event["why"] for job in jobs for event in ledger.job(job).history} == {said}
    assert "task.unknown" in stranger.log
    ledger.cancel(busy, "enough")
    wait_until(lambda: all(ledger.job(job).ended for job in jobs), within_s=30, what="the jobs")
    assert [(ledger.job(job).result, ledger.job(job).attempts) for job in jobs] == [("b", 0)] * 3


def test_a_task_that_nobody_knows_fails_with_one_line(start_node, send, ledger, wait_until):
    start_node("a")

    job = send("no.such")

    wait_until(lambda: ledger.job(job).ended, within_s=30, what="the job")
    assert ledger.job(job).state == "FAILED"
    assert ledger.job(job).error == "node a does not know task no.such, nor does any other node"
