"""One lane: a Celery worker that runs what the agent allows."""

from __future__ import annotations

import os
import warnings

from celery import Celery
from celery.apps.worker import Worker
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning

from jetq import page
from jetq.config import Settings
from jetq.engine import control, watch
from jetq.engine.capacity import Capacity, Control
from jetq.engine.child import PAGE, own_slots, quieten, tracer_for
from jetq.engine.consumer import Consumer
from jetq.engine.request import LaneSide
from jetq.service.jobfiles.outlet import OUTPUT
from jetq.service.patience import patiently
from jetq.service.stopping import Stops
from jetq.store import keys
from jetq.store.redis import RedisStore, connect


def run_lane(
    app: Celery,
    *,
    lane: str,
    node: str,
    epoch: str,
    pool_size: int,
    control_fd: int,
    status_fd: int,
    page_fd: int,
    settings: Settings,
) -> int:
    """Run a lane until it is told to stop. Returns its exit code.

    Args:
        app: with all tasks imported.
        lane: ``tasks`` (prefork pool), ``processes`` (threads) or ``plain`` (prefork, with Celery's own settings).
        node: name; epoch: of the agent's run.
        pool_size: children of the ``tasks`` lane.
        control_fd: where the agent's JSON lines arrive; status_fd: where this lane answers (engine.capacity).
        page_fd: of the page in which its children say what they run.
        settings: the cluster's.
    """
    os.environ.update({"JETQ_NODE": node, "JETQ_EPOCH": epoch, PAGE: f"/proc/{os.getpid()}/fd/{page_fd}"})
    os.set_inheritable(page_fd, False)  # children open it by that path
    shared = page.Page(page_fd)
    watch.start(shared, dead_s=settings.dead_s)
    threads = lane == "processes"
    name = f"jetq-{node}-{lane}"
    _prepare(app, settings, lane, name)
    control.install()
    LaneSide.node = node
    LaneSide.store = RedisStore(connect(app.conf.jetq_url), settings.cluster, ttl_s=settings.result_ttl_s)
    Capacity.control = Control(lane, control_fd, status_fd, shared, reads_shared=lane == "tasks", client_name=name)
    Consumer.page = shared
    if threads:
        slots = own_slots(shared, range(shared.slots))
        LaneSide.stops = Stops()
        Consumer.tracer = tracer_for(app, node, epoch, slots, None, LaneSide.stops)
    worker = Worker(
        app=app,
        hostname=f"{lane}@{node}",
        queues=[keys.PLAIN, *settings.also_queues] if lane == "plain" else [keys.own_queue(lane, node)],
        concurrency=shared.slots if threads else pool_size,
        pool="threads" if threads else "prefork",
        loglevel="INFO" if settings.log_level == "debug" else settings.log_level.upper(),  # also that of bodies
        task_events=False,  # Flower turns them on while it looks (enable_events): 2-3 round trips a task
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=False,
        heartbeat_interval=10,
        quiet=True,
    )
    quieten(app)
    if lane != "plain":  # what Celery may do one day to unacknowledged messages at a lost connection: here are none
        warnings.simplefilter("ignore", CPendingDeprecationWarning)  # after the worker's making, which turns them on
    patiently(LaneSide.store.declare, {name: getattr(task, "jetq", None) for name, task in app.tasks.items()})
    worker.start()
    return int(worker.exitcode or 0)


def _prepare(app: Celery, settings: Settings, lane: str, client_name: str) -> None:
    warnings.simplefilter("ignore", SecurityWarning)  # that it runs as root: the agent says it, with jetq's own remedy
    options = {**app.conf.broker_transport_options, "client_name": client_name}
    if lane == "plain":
        os.environ.pop(OUTPUT, None)  # what it prints is no job's
        options["ack_emulation"] = True  # no ledger stands behind plain work
    app.conf.broker_transport_options = options
    app.conf.worker_redirect_stdouts = False
    if settings.pool == "spawn" and lane != "processes":
        app.conf.worker_pool_start_method = "spawn"
    app.steps["consumer"].add(Capacity)
