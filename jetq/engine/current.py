"""The job that this thread runs, if any, and its token for the world outside."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

from jetq.errors import UsageError
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
    #: In a lane of threads: set once the run is asked to stop, and its body ends what it has started. A pool child gets
    #: signals instead.
    stop: threading.Event | None = None


def run() -> Run | None:
    """Return what this thread runs."""
    return getattr(_local, "run", None)


def enter(new: Run | None) -> Run | None:
    """Make ``new`` this thread's run; returns the one before."""
    before = run()
    _local.run = new
    return before


def token() -> str:
    """Return the token of the job that this thread or process runs: it names this run, and no other has it.

    Whoever keeps what a job does outside of jetq refuses what carries another token than the last that began
    (docs/states.md). Tokens are compared for equality only.

    Raises:
        UsageError: no job runs here.
    """
    here = run()
    found = here.token if here else os.environ.get("JETQ_TOKEN")
    if not found:
        raise UsageError("jetq.token() names the job that runs, and none does here: call it in the body of a task")
    return found
