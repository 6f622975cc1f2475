"""The answers of the ledger: what a publish, a claim or a loss led to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim."""

    verdict: Literal["run", "finish", "full", "refused"]
    token: str = ""  # names this assignment; every later call carries it
    attempt: int = 0  # infrastructure failures before this run
    outcome: str = ""  # verdict "finish": the body ended in an earlier life, this is how (JSON)
    why: str = ""  # verdict "refused": for the log


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that reached a terminal state outside a lane, and that Celery has to be told of."""

    job_id: str
    state: str  # FAILED or CANCELLED
    reason: str
    envelope: str  # the stored message: callbacks, chord and reply address are in it


@dataclass(frozen=True, slots=True)
class Held:
    """A job that a node holds a lease for, as its record says."""

    job_id: str
    state: str  # "" where the record is not there
    token: str
    claimer: str
    node: str  # that the record names
    kind: str
