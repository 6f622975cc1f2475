"""Plain Celery, as its users run it: the peer. ``celery -A benchmarks._plain worker`` with BENCH_BROKER set."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.app.tasks import bench

#: kombu's own class by name: in a process that has loaded jetq the alias ``redis`` leads to jetq's transport.
STOCK = "kombu.transport.redis:Transport"


def plain_app(url: str, *, results: bool, prefetch_1: bool = False) -> Celery:
    """Return an app with Celery's defaults, results where asked for, and nothing of jetq."""
    app = Celery("plain", broker=url, backend=url if results else None, set_as_current=False)
    app.conf.broker_transport = STOCK
    app.conf.broker_connection_retry_on_startup = True
    app.conf.task_ignore_result = not results
    if prefetch_1:
        app.conf.update(worker_prefetch_multiplier=1, worker_disable_prefetch=True)
    return app


#: What a worker runs; shared tasks (``bench``) belong to every app.
app = plain_app(
    os.environ.get("BENCH_BROKER", "redis://"),
    results=os.environ.get("BENCH_RESULTS") == "1",
    prefetch_1=os.environ.get("BENCH_PREFETCH_1") == "1",
)
TASKS = (bench.noop, bench.nap)
