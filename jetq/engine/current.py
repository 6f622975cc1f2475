"""The job that this thread runs, if any."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from jetq.store.base import StoredResult

_local = threading.local()


@dataclass(slots=True)
class Run:
    """One claimed job while its body and what follows it run."""

    job_id: str
    token: str
    claimer: str
    attempt: int
    follows: bool  # a chain, callback, errback or chord hangs on it
    outcome: str  # how the body ended in an earlier life (JSON); "" if it has not run
    folds: bool  # results may be stored by the script that ends the job (same server as the ledger)
    most_bytes: int  # a larger result is not kept by the ledger, and not stored by its script
    entered: bool = False  # the body has been called by the tracer
    refused: bool = False  # the ledger gave the job to another assignment meanwhile
    value: Any = None
    stored: StoredResult | None = None


def run() -> Run | None:
    """Return what this thread runs."""
    return getattr(_local, "run", None)


def enter(new: Run | None) -> Run | None:
    """Make ``new`` this thread's run; returns the one before."""
    before = run()
    _local.run = new
    return before
