"""A node runs built-in tasks, a user's, and those of an existing Celery app, in forked and in spawned children."""

from __future__ import annotations

import os
import signal

import pytest

SHOP = """
import os
from celery import Celery
app = Celery("shop")

@app.task(name="shop.sell")
def sell(what):
    return f"{what} sold in {os.path.basename(os.getcwd())}"
"""
COUNT = """
from celery import shared_task

@shared_task(name="shop.count")
def count():
    return 3
"""


@pytest.mark.parametrize("pool", ["fork", "spawn"])
def test_built_in_and_users_tasks_run(start_node, send, ledger, wait_until, pool):
    start_node("a", "--pool", pool)

    jobs = [send("fault.quick", "hello"), send("demo.nap", 0)]

    wait_until(lambda: all(ledger.job(job).ended for job in jobs), within_s=30, what="both jobs")
    assert [ledger.job(job).state for job in jobs] == ["SUCCEEDED", "SUCCEEDED"]
    assert ledger.job(jobs[0]).result == "hello"


@pytest.mark.parametrize("pool", ["fork", "spawn"])
def test_an_existing_app_is_taken(start_node, send, ledger, wait_until, app_dir, pool):
    (app_dir / "shop.py").write_text(SHOP)
    start_node("a", "--app", "shop:app", "--pool", pool)

    jobs = [send("shop.sell", "tea"), send("fault.quick", "x"), send("demo.nap", 0)]

    wait_until(lambda: all(ledger.job(job).ended for job in jobs), within_s=30, what="the jobs")
    assert [ledger.job(job).state for job in jobs] == ["SUCCEEDED"] * 3
    assert ledger.job(jobs[0]).result.startswith("tea sold in")


def test_an_existing_app_brings_its_own_broker(start_node, send, ledger, wait_until, app_dir, redis_url):
    (app_dir / "shop.py").write_text(SHOP.replace('Celery("shop")', f'Celery("shop", broker="{redis_url}")'))
    start_node("a", "--app", "shop:app", url="")

    job = send("shop.sell", "tea")

    wait_until(lambda: ledger.job(job).ended, within_s=30, what="the job")
    assert ledger.job(job).state == "SUCCEEDED"


def test_the_ledger_knows_what_a_node_has_loaded(start_node, ledger):
    start_node()

    assert {"demo.nap", "fault.hold", "fault.quick", "video.analyze"} <= ledger.loaded()["a"]


def test_a_node_says_what_it_is(start_node, ledger, wait_until):
    start_node("a", "--label", "zone=yard")

    wait_until(lambda: ledger.nodes()[0].metrics.get("cpu_busy") is not None, what="the first full beat")
    node = ledger.nodes()[0]
    assert {"zone=yard", "node=a"} <= set(node.labels)
    assert (node.slots, node.state) == (2, "up")
    assert node.metrics["mem_total_bytes"] > 0
    assert node.metrics["rtt_s"] > 0
    assert node.metrics["gpu_busy"] is None


def test_what_an_app_includes_is_known_before_the_node_joins(start_node, send, ledger, wait_until, app_dir):
    (app_dir / "shop.py").write_text(SHOP.replace('Celery("shop")', 'Celery("shop", include=["shop_tasks"])'))
    (app_dir / "shop_tasks.py").write_text(COUNT)
    start_node("a", "--app", "shop:app")

    job = send("shop.count")

    assert {"shop.sell", "shop.count"} <= ledger.loaded()["a"]
    wait_until(lambda: ledger.job(job).ended, within_s=30, what="the job")
    assert ledger.job(job).result == 3


def test_a_node_says_once_that_it_runs_as_root(start_node):
    node = start_node()

    assert node.log.count("node.is_root") == (os.geteuid() == 0)
    assert "superuser" not in node.log


def test_a_node_whose_tasks_can_be_loaded_no_more_ends_with_one_line(start_node, app_dir, node_state):
    node = start_node()
    (app_dir / "tasks" / "yard.py").write_text("1 / 0")

    os.kill(node.pid_of("tasks"), signal.SIGKILL)

    assert node.wait() == 2
    said = [line for line in node.log.splitlines() if line.startswith("jetq: ")]
    assert len(said) == 1 and "module tasks.yard raises on import (line 1): ZeroDivisionError" in said[0]
    assert node_state("a") == "gone"
