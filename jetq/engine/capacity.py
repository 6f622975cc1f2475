"""A lane takes no more than its allowance, reads the cohorts it serves, and kills what was cancelled.

In a lane of threads nothing can be killed: there a cancelled run is asked to stop (jetq.service.stopping), and its body
ends what it has started.

The agent writes JSON lines on a pipe: ``{"allow": 2, "cohorts": ["any"], "cancel": ["4711.5d1f"], "stop": false}``. The
readable pipe wakes the hub, so that a change acts at once. The lane answers on a second pipe:
``{"ready": 2, "reserved": ["id"], "busy": 1}``: pool children that are up, jobs it has popped and not started, requests
that Celery runs. What really runs stands in the page (jetq.page), also where Celery has lost sight of it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Set
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

from celery import bootsteps
from celery.worker import state
from celery.worker.consumer.tasks import Tasks

from jetq import process
from jetq.clock import boot_s
from jetq.engine.request import LaneSide
from jetq.errors import BrokerDown
from jetq.log import Log
from jetq.page import Page
from jetq.store.keys import shared_queue

log = Log("lane")
#: A refused shared claim closes the shared queues of the lane this long, or until the allowance changes (s).
CLOSED_S = 1.0
#: A cancelled body that ignores SIGTERM is killed after this long (s).
KILL_AFTER_S = 5.0
#: How often a lane looks at its children and reports (s).
TICK_S = 0.25


@dataclass(slots=True)
class Control:
    """What the agent said last, the two pipes, and the page."""

    lane: str
    control_fd: int
    status_fd: int
    page: Page
    reads_shared: bool
    client_name: str  # of this lane's broker connections
    allow: int = 0
    cohorts: tuple[str, ...] = ()
    cancel: tuple[str, ...] = ()  # claimers: a later run of the same job is another
    closed_until: float = 0.0  # monotonic, s
    said: str = ""
    buffer: bytes = field(default=b"", repr=False)

    def read(self) -> bool:
        """Take what the agent wrote. False: the agent is gone."""
        try:
            data = os.read(self.control_fd, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            allow = int(said.get("allow", self.allow))
            if allow > self.allow:
                self.closed_until = 0.0
            self.allow = allow
            self.cohorts = tuple(said.get("cohorts", self.cohorts))
            self.cancel = tuple(said.get("cancel", ()))
        return True

    def write(self, ready: int, reserved: list[str], busy: int) -> None:
        """Tell the agent, if something changed."""
        text = json.dumps({"ready": ready, "reserved": reserved, "busy": busy})
        if text != self.said:
            self.said = text
            os.write(self.status_fd, text.encode() + b"\n")


class Capacity(bootsteps.StartStopStep):
    """Applies the control to the consumer; starts anew on each reconnect."""

    requires = (Tasks,)
    control: Control  # set before the lane starts

    def __init__(self, c: Any, **kwargs: Any) -> None:
        self._timer: Any = None
        self._killed: dict[str, float] = {}  # job id -> asked at, monotonic s
        self._unseen = 0  # jobs that children run though Celery forgot them when a connection broke
        super().__init__(c, **kwargs)

    def start(self, c: Any) -> None:
        """Limit what is taken, and watch the pipe."""
        channel = c.task_consumer.channel
        base = type(channel.qos).can_consume  # not the instance's: Tasks.start has replaced that one

        def can_consume(qos: Any) -> bool:
            if channel._in_poll:  # its reply must be delivered, never parked in the socket
                return bool(base(qos))
            return self._taken() < self.control.allow and bool(base(qos))

        if self.control.lane != "plain":
            channel.qos.can_consume = MethodType(can_consume, channel.qos)
        self._timer = c.timer.call_repeatedly(TICK_S, self._tick, (c,))
        os.set_blocking(self.control.control_fd, False)
        if c.hub:
            c.hub.add_reader(self.control.control_fd, self._on_control, c)
        LaneSide.on_full = lambda: self._close_shared(c)  # type: ignore[method-assign]
        self._look()
        self._apply(c)

    def stop(self, c: Any) -> None:
        """Let go of the hub; the next start takes a new one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if c.hub:
            c.hub.remove_reader(self.control.control_fd)

    def _on_control(self, c: Any) -> None:
        if not self.control.read():
            log.warning("agent.gone", lane=self.control.lane)
            os._exit(1)
        self._apply(c)

    def _apply(self, c: Any) -> None:
        if c.task_consumer is None:
            return
        self._follow_cohorts(c)
        channel = c.task_consumer.channel
        full = self.control.allow <= self._taken() and self.control.lane != "plain"
        if channel._in_poll and full:
            _unblock(self.control.client_name)
        if LaneSide.stops is not None:  # runs that Celery has lost sight of hear it too
            for claimer in self.control.cancel:
                if LaneSide.stops.ask(claimer):
                    log.info("run.stops", claimer=claimer)
            return
        for claimer, request in self._claims(set(self.control.cancel) - self._killed.keys()):
            self._killed[claimer] = time.monotonic()
            request.end(c.pool)

    def _insist(self, pool: Any) -> None:
        """Kill what ignored SIGTERM."""
        left = {}
        for claimer, request in self._claims(self._killed.keys()):
            left[claimer] = self._killed[claimer]
            if time.monotonic() - left[claimer] > KILL_AFTER_S:
                request.end(pool, signal.SIGKILL)
        self._killed = left

    def _claims(self, claimers: Set[str]) -> list[tuple[str, Any]]:
        """Return which of these still run, with the requests they run."""
        if not claimers:
            return []
        runs = {entry.job_id: entry.claimer for entry in self.control.page.living(process.born)}
        found = [(runs.get(request.id, ""), request) for request in list(state.reserved_requests)]
        return [(claimer, request) for claimer, request in found if claimer in claimers]

    def _follow_cohorts(self, c: Any) -> None:
        if not self.control.reads_shared:
            return
        closed = time.monotonic() < self.control.closed_until
        want = set() if closed else {shared_queue(x) for x in self.control.cohorts}
        have = {q for q in c.task_consumer._queues if q.startswith(shared_queue(""))}
        for queue in sorted(want - have):
            c.add_task_queue(queue)
        for queue in sorted(have - want):
            c.cancel_task_queue(queue)

    def _close_shared(self, c: Any) -> None:
        self.control.closed_until = time.monotonic() + CLOSED_S
        self._follow_cohorts(c)

    def _tick(self, c: Any) -> None:
        pool = c.pool
        if hasattr(pool, "maintain_pool") and self.control.lane == "tasks":
            pool.maintain_pool()  # billiard's own look comes every 5 s only
        self._follow_cohorts(c)
        self._insist(pool)
        self.control.page.tick_s = boot_s()
        self.control.write(_ready(pool), self._look(), len(state.active_requests))

    def _taken(self) -> int:
        return len(state.reserved_requests) + self._unseen

    def _look(self) -> list[str]:
        """Count what runs unseen by Celery, and return the jobs it has taken that do not run yet."""
        runs = {entry.job_id for entry in self.control.page.living(process.born)}
        taken = {request.id: request for request in list(state.reserved_requests)}
        self._unseen = len(runs - taken.keys())
        return sorted(job for job, request in taken.items() if job not in runs and request.pub)


def _ready(pool: Any) -> int:
    """How many pool children have said that they are up."""
    inner = getattr(pool, "_pool", None)
    starting = getattr(inner, "_waiting_to_start", None)
    return int(pool.num_processes) if inner is None or starting is None else len(inner._pool) - len(starting)


def _unblock(client_name: str) -> None:
    """End the outstanding BRPOP of a lane that may take nothing more."""
    try:
        LaneSide.store.unblock(client_name)
    except BrokerDown:
        return  # nothing can be popped either; the next change of the allowance tries again
