"""An existing Celery app joins with one line; work that wants no ledger stays plain Celery."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from celery import Celery

import jetq
from jetq import page
from jetq.config import Settings
from jetq.engine.app import create_app
from jetq.errors import UsageError
from jetq.store import keys


def test_an_installed_app_publishes_through_the_ledger(bench, start_node, redis_url, monkeypatch) -> None:
    monkeypatch.delenv("JETQ_BROKER_URL")
    start_node("a", 1)
    app = Celery("shop", broker=redis_url, backend=redis_url, set_as_current=False)

    assert jetq.install(app) is app
    jetq.install(app)
    job = app.send_task("yard.count", (41,))

    assert job.get(timeout=20) == 42
    bench.ended(job.id)
    assert bench.runs(job.id) == 1


def test_install_after_the_first_publish_is_refused(redis_url, monkeypatch) -> None:
    monkeypatch.setenv("JETQ_BROKER_URL", redis_url)
    app = Celery("shop", broker=redis_url, set_as_current=False)
    app.send_task("yard.count", (1,))

    with pytest.raises(UsageError, match="before the app's first publish"):
        jetq.install(app)


def test_work_without_the_ledger_is_read_by_the_plain_lane_only(bench, start_node, redis_url, tmp_path) -> None:
    start_node("a", 1)

    job = bench.app.send_task("yard.count", (1,), jetq={"ledger": False})

    assert bench.store.jobs() == []
    assert bench.redis.llen(bench.store.prefix + keys.with_priority(keys.PLAIN, 3)) == 1
    control_r, control_w = os.pipe()
    status_r, status_w = os.pipe()
    here = os.path.dirname(__file__)
    page_fd = page.create(1)[1]
    fds = (control_r, status_w, page_fd)
    argv = [sys.executable, f"{here}/lane_main.py", "a", "e", "1", *map(str, fds), "plain"]
    env = {**os.environ, "JETQ_BROKER_URL": redis_url, "PYTHONPATH": f"{here}:{os.getcwd()}"}
    with (tmp_path / "plain.log").open("wb") as out:
        lane = subprocess.Popen(argv, env=env, pass_fds=fds, stdout=out, stderr=out)
    try:
        assert job.get(timeout=30) == 2
        assert bench.runs(job.id) == 1
    finally:
        lane.send_signal(signal.SIGTERM)
        lane.wait(20)
        for fd in (*fds, control_w, status_r):
            os.close(fd)


def test_an_app_without_results_stores_none(bench, start_node, redis_url) -> None:
    start_node("a", 1)
    app = create_app(Settings(), redis_url, stores=False, current=False)

    job = app.send_task("yard.count", (1,))

    bench.ended(job.id)
    assert bench.store.job(job.id).result == 2
