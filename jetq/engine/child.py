"""Imported by every process that runs tasks: connects the hooks, also in spawned children that know nothing yet."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, current_app, signals

from jetq.engine.app import install_hooks
from jetq.engine.run import Tracer
from jetq.engine.transport import RoutedChannel
from jetq.store.redis import RedisStore, connect


def tracer_for(app: Celery, node: str, epoch: str) -> Tracer:
    """Return the tracer of this process, on a connection of its own."""
    store = RedisStore(connect(app.conf.jetq_url), app.conf.jetq_cluster, ttl_s=app.conf.jetq_ttl_s)
    folds = app.conf.result_backend == app.conf.broker_url
    RoutedChannel.patient = True
    return Tracer(app, store, node, epoch, folds=folds)


def _on_process_init(sender: str | None = None, **_rest: Any) -> None:
    """A pool child leads its own process group, so that its whole tree can be killed, and wraps its tasks."""
    if "JETQ_EPOCH" not in os.environ:
        return  # a worker of the app's own that is no lane
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    app = current_app._get_current_object()
    tracer_for(app, os.environ["JETQ_NODE"], os.environ["JETQ_EPOCH"]).wrap_all(sender)


install_hooks()
signals.worker_process_init.connect(_on_process_init, weak=False, dispatch_uid="jetq.child")
