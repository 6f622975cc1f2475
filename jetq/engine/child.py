"""Imported by every process that runs tasks: connects the hooks, also in spawned children that know nothing yet."""

from __future__ import annotations

import logging
import os
from typing import Any

from billiard.process import current_process
from celery import Celery, current_app, signals

from jetq import page, process
from jetq.engine.app import install_hooks
from jetq.engine.run import Tracer
from jetq.engine.surroundings import Surroundings
from jetq.engine.transport import RoutedChannel
from jetq.log import Log
from jetq.service.stopping import Stops
from jetq.store.redis import RedisStore, connect

#: Where a lane's children find its page.
PAGE = "JETQ_PAGE"

log = Log("child")


def tracer_for(
    app: Celery,
    node: str,
    epoch: str,
    slots: list[page.Slot],
    around: Surroundings | None,
    stops: Stops | None = None,
) -> Tracer:
    """Return the tracer of this process, on a connection of its own."""
    store = RedisStore(connect(app.conf.jetq_url), app.conf.jetq_cluster, ttl_s=app.conf.jetq_ttl_s)
    folds = app.conf.result_backend == app.conf.broker_url
    RoutedChannel.patient = True
    return Tracer(app, store, node, epoch, slots=slots, folds=folds, around=around, stops=stops)


def own_slots(shared: page.Page, indexes: range) -> list[page.Slot]:
    """Return slots for this process to write, the lowest last: it is taken first."""
    pid = os.getpid()
    return [shared.slot(index, pid=pid, born=process.born(pid) or 0) for index in reversed(indexes)]


def quieten(app: Celery) -> None:
    """Keep Celery's two lines a task out of the logs: the ledger tells that story. What bodies log is not touched."""
    if app.conf.jetq_quiet:
        bodies = logging.getLogger("celery.task")  # the parent of all that get_task_logger gives
        bodies.setLevel(logging.getLogger().level)
        for name in ("celery", "kombu"):
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


def _on_process_init(sender: str | None = None, **_rest: Any) -> None:
    """A pool child leads its own process group, so that its whole tree can be killed, and wraps its tasks."""
    if "JETQ_EPOCH" not in os.environ:
        return  # a worker of the app's own that is no lane
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    index = int(current_process().index)  # a child that replaces another has its index, and so its slot
    shared = page.open_path(os.environ[PAGE])
    if index >= shared.slots:
        log.error("child.too_many", index=index, slots=shared.slots)  # somebody grew the pool by remote control
        os._exit(1)
    app = current_app._get_current_object()
    slots = own_slots(shared, range(index, index + 1))
    quieten(app)
    tracer_for(app, os.environ["JETQ_NODE"], os.environ["JETQ_EPOCH"], slots, Surroundings.of_child()).wrap_all(sender)


install_hooks()
signals.worker_process_init.connect(_on_process_init, weak=False, dispatch_uid="jetq.child")
