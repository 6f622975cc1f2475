"""The lane's side of a job: what a pool child can no longer say itself goes to the ledger, once."""

from __future__ import annotations

import os
import re
import signal as signals
from typing import Any, cast

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import Terminated, TimeLimitExceeded
from celery.exceptions import Ignore, Reject, Retry, WorkerLostError
from celery.worker import state
from celery.worker.request import Request as Stock

from jetq import process
from jetq.engine.run import FULL
from jetq.errors import JetqError
from jetq.log import Log
from jetq.service.patience import patiently
from jetq.service.stopping import Stops
from jetq.store.base import After
from jetq.store.redis import RedisStore

#: What a dead child has left is given up after this (s): the lane must turn, or it would count as hanging.
CLEAR_S = 1.0
#: Billiard's words for it, with a number of its own at the end that tells nobody anything.
_LOST = re.compile(r"^Worker exited prematurely: (.*?)\.?( Job: \d+)?\.?$")

log = Log("lane")


class OutOfMemory(Exception):
    """A body's MemoryError: for one by that name Celery ends the whole lane, and the neighbours with it."""


class LaneSide:
    """What the requests of one lane share; set before the lane starts."""

    store: RedisStore
    node = ""
    stops: Stops | None = None  # where bodies run in threads of the lane: no signal may be sent for one of them

    @staticmethod
    def on_full() -> None:
        """Close the shared queues for a moment (set by the capacity step)."""


class Request(Stock):
    """Celery's request, with losses, time limits and revokes told to the ledger first."""

    _timed_out = False  # its job has ended by a hard limit, and Celery is to hear of it

    @property
    def pub(self) -> str | None:
        """The publication number of the message; None: not ledgered."""
        return cast("str | None", self._request_dict.get("jetq_pub"))

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Tell the ledger when the child is gone; Celery hears of it only when the job has ended."""
        exc = exc_info.exception
        exc = exc.exc if isinstance(exc, ExceptionWithTraceback) else exc
        if self.pub is None:
            return super().on_failure(exc_info, send_failed_event, return_ok)
        if isinstance(exc, Ignore) and str(exc) == FULL:
            LaneSide.on_full()
        if isinstance(exc, (WorkerLostError, SystemExit, KeyboardInterrupt, Terminated, TimeLimitExceeded)):
            return self._on_child_gone(exc_info, exc, send_failed_event, return_ok)
        if isinstance(exc, MemoryError):
            exc_info.exception = exc = OutOfMemory(_described(exc))
        answer = super().on_failure(exc_info, send_failed_event, return_ok)
        if not return_ok and not isinstance(exc, (Ignore, Reject, Retry)):
            self._end(_described(exc))
        return answer

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Tell Celery of a hard limit where that has ended the job; ``on_failure``, which comes first, has asked."""
        if soft or self.pub is None:
            super().on_timeout(soft, timeout)
        elif self._timed_out:
            super().on_timeout(soft, timeout)
            patiently(LaneSide.store.told, self.id)

    def _on_child_gone(self, exc_info: Any, exc: BaseException, send_failed_event: bool, return_ok: bool) -> Any:
        where = f"{self.worker_pid}." if self.worker_pid else None
        self._clear_up()
        then: After = "fail" if isinstance(exc, TimeLimitExceeded) else "charge"
        now = patiently(LaneSide.store.lost, self.id, LaneSide.node, where, _described(exc), then=then)
        log.warning("child.lost", job=self.id, pid=self.worker_pid, why=exc, now=now or "ended")
        state.task_ready(self)
        if not now and patiently(LaneSide.store.put_back, self.id, self.pub):
            now = "QUEUED"  # it died before its claim: the message is the only copy
        if now == "FAILED" and then == "fail":
            self._timed_out = True
        elif now == "FAILED":
            super().on_failure(exc_info, send_failed_event, return_ok)
            patiently(LaneSide.store.told, self.id)
        elif now == "CANCELLED":
            if not self._already_revoked:
                super()._announce_revoked("cancelled", True, str(exc), False)
            patiently(LaneSide.store.told, self.id)
        elif now:
            self.acknowledge()
            self.send_event("task-retried", exception=repr(exc), traceback="")
        return None

    def _clear_up(self) -> None:
        """Leave nothing of what the dead child has started: the job may run again at once."""
        if self.worker_pid and LaneSide.stops is None:
            process.kill_group(self.worker_pid)
        mine = {process.MARK: os.environ[process.MARK]} if process.MARK in os.environ else {}
        try:
            process.sweep_carriers(CLEAR_S, JETQ_JOB_ID=self.id, **mine)
        except JetqError as exc:
            log.error("child.cannot_clear", job=self.id, why=exc)

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """Signal the whole process group of the child that runs this job, or ask its thread to stop.

        Celery would count it as ended at once; here it holds its slot, and is revoked, when the child has gone.
        """
        if self.pub is None or not (self.time_start or LaneSide.stops):
            super().terminate(pool, signal)
            return
        patiently(LaneSide.store.cancel, self.id, "revoked (terminated)")
        self.end(pool, signals.SIGKILL if signal == "KILL" else signals.SIGTERM)

    def end(self, pool: Any, number: signals.Signals = signals.SIGTERM) -> None:
        """Signal the process group of the child that runs this job, as the ledger asked; a thread is asked to stop."""
        if LaneSide.stops is not None:
            LaneSide.stops.ask_job(self.id)
            return
        if self.pub is None or not self.time_start:
            super().terminate(pool, number.name.removeprefix("SIG"))
            return
        _signal_group(self.worker_pid, number)
        pool.terminate_job(self.worker_pid, number)

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        drop = LaneSide.store.drop
        if self.pub and not terminated and patiently(drop, self.id, self.pub, LaneSide.node, "CANCELLED", reason):
            patiently(LaneSide.store.told, self.id)
        super()._announce_revoked(reason, terminated, signum, expired)

    def _end(self, why: str) -> None:
        """End a job whose failure Celery has already been told of."""
        store, where = LaneSide.store, f"{self.worker_pid}." if self.worker_pid else None
        if not patiently(store.drop, self.id, self.pub or "", LaneSide.node, "FAILED", why):
            patiently(store.lost, self.id, LaneSide.node, where, why, then="fail")
        patiently(store.told, self.id)


def _described(exc: BaseException) -> str:
    """Say what happened in one line: Celery's and our own words as they are, those of a body with their type."""
    if isinstance(exc, TimeLimitExceeded):
        return f"hard time limit of {exc.args[0]} s exceeded"
    if isinstance(exc, WorkerLostError):
        return _LOST.sub(r"its process ended early: \1", str(exc))
    if isinstance(exc, Terminated):
        return f"its process was ended by signal {exc}"
    if isinstance(exc, OutOfMemory):
        return str(exc)
    return f"{type(exc).__name__}: {exc}".removesuffix(": ")


def _signal_group(pid: int, number: signals.Signals) -> None:
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
    except ProcessLookupError:
        return
