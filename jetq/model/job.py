"""A job: its states, the moves between them, and the row that people and programs read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class JobState(str, Enum):
    """Where a job is. The value is what the ledger stores and the CLI prints."""

    WAITING = "WAITING"  # for its time, or (replaced) for its id to be published again
    QUEUED = "QUEUED"  # in a shared queue: no eligible node had a free slot
    ASSIGNED = "ASSIGNED"  # a node holds its lease and has its message
    RESERVED = "RESERVED"  # gangs: every member node holds its lease
    PREPARING = "PREPARING"  # gangs: members check version, disk, ports, network
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"  # the body ended; callbacks and result are on their way
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


_S = JobState
#: The states a job never leaves.
TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED})
#: Every move that is allowed; the ledger's scripts make no other (a test drives them against this table).
MOVES: dict[JobState, frozenset[JobState]] = {
    _S.WAITING: frozenset({_S.QUEUED, _S.ASSIGNED, _S.WAITING, _S.FAILED, _S.CANCELLED}),
    _S.QUEUED: frozenset({_S.ASSIGNED, _S.RUNNING, _S.RESERVED, _S.WAITING, _S.QUEUED, _S.FAILED, _S.CANCELLED}),
    # SUCCEEDED: a stream of a short file, whose seat has ended before it could say that it runs.
    _S.ASSIGNED: frozenset(
        {_S.ASSIGNED, _S.QUEUED, _S.RUNNING, _S.WAITING, _S.SUCCEEDED, _S.FAILED, _S.CANCELLED},
    ),
    _S.RESERVED: frozenset({_S.PREPARING, _S.QUEUED, _S.FAILED, _S.CANCELLED}),
    _S.PREPARING: frozenset({_S.RUNNING, _S.QUEUED, _S.FAILED, _S.CANCELLED}),
    _S.RUNNING: frozenset(
        {_S.FINISHING, _S.QUEUED, _S.ASSIGNED, _S.WAITING, _S.SUCCEEDED, _S.FAILED, _S.CANCELLED},
    ),
    _S.FINISHING: frozenset({_S.QUEUED, _S.ASSIGNED, _S.SUCCEEDED, _S.FAILED, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as ``jetq job list --json`` prints it. Times are Unix seconds (Redis clock)."""

    id: str
    kind: str  # task, stream or gang
    name: str  # task name
    state: str
    nodes: list[str]
    attempts: int  # infrastructure failures charged so far
    submitted_at: float | None
    started_at: float | None
    finished_at: float | None
    result: Any  # decoded; None until SUCCEEDED, and where it is not kept
    error: str | None
    reason: str | None  # why it waits or moved, or why its result is not kept
    history: list[dict[str, Any]] = field(default_factory=list)  # {"at", "what", "node" (a gang's: all), "why"}

    expected_at: float | None = None  # gangs that wait: when it is expected to start
    progress: dict[str, Any] | None = None  # {"step", "total", "metrics"}, as the job last said
    exit_code: int | None = None  # of the rank that failed first; 0: the gang ended well
    tail: list[str] = field(default_factory=list)  # the last lines of that rank
    telemetry: dict[str, Any] | None = None  # of a stream, as its node last said (docs/streams.md), age_s ago
    stream: dict[str, Any] | None = None  # {"spec", "version", "owner", "heir": ids of its seats}
    result_kept: bool = True  # False: it returned something that the ledger does not keep; ``reason`` says why

    @property
    def ended(self) -> bool:
        """Whether the state is terminal."""
        return JobState(self.state) in TERMINAL

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)
