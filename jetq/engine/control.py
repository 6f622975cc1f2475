"""Celery's remote control where the ledger knows better: a revoke (Flower's, too) cancels the job in the ledger.

Every lane hears a revoke, and a worker's own memory of it ends with the worker; the ledger's does not.
"""

from __future__ import annotations

from typing import Any

from celery.worker import control as stock
from celery.worker.control import control_command, ok
from kombu.utils.functional import maybe_list

from jetq.engine.request import LaneSide
from jetq.model.job import JobState
from jetq.service.patience import patiently

#: Where only a revoke that terminates has an effect.
_RUNS = frozenset({JobState.RUNNING.value, JobState.FINISHING.value})
_revoke_plain = stock.revoke


def install() -> None:
    """Put it behind the name that Celery's clients and Flower call."""
    control_command(name="revoke", variadic="task_id", signature="[id1 [id2 [... [idN]]]]")(revoke)


def revoke(state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **kwargs: Any) -> Any:
    """Revoke tasks by id. Jobs of the ledger are cancelled there; what runs only where ``terminate`` is set."""
    cancelled, unknown = [], []
    for job_id in sorted(set(maybe_list(task_id) or [])):
        row = patiently(LaneSide.store.job, job_id)
        if row is None:
            unknown.append(job_id)
        elif not row.ended and (terminate or row.state not in _RUNS):
            patiently(LaneSide.store.cancel, job_id, f"revoked{' (terminated)' if terminate else ''}")
            cancelled.append(job_id)
    if unknown:
        return _revoke_plain(state, unknown, terminate, signal, **kwargs)
    return ok(f"cancelled: {', '.join(cancelled) or 'nothing'}")
