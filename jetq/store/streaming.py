"""Two more roles of the ledger: of who keeps streams on their nodes, and of a stream's seats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jetq.model.charge import Charge
from jetq.model.job import JobRow
from jetq.model.needs import Needs
from jetq.policy.seats import StreamNode
from jetq.policy.streamrooms import StreamRecord
from jetq.policy.streams import Step

#: One result of a stream: at (Unix, s), n, score, boxes, stream, token, the analyzer's values, jpeg (base 64) if any,
#: and place: whoever goes on from it misses nothing.
Seen = dict[str, Any]


class Sights(Protocol):
    """What whoever reads results asks."""

    def job(self, job_id: str) -> JobRow | None:
        """Return one job, or None."""
        ...

    def results(self, job_id: str, after: str = "", limit: int = 500) -> tuple[str, list[Seen]]:
        """Return what a stream has seen since, and the place to go on from ("": the oldest that is kept)."""
        ...

    def last_result(self, job_id: str) -> str:
        """Return the place of the newest result, "" where there is none: who goes on from it sees new ones only."""
        ...


@dataclass(frozen=True, slots=True)
class Heard:
    """The ledger's answer to a seat."""

    owns: bool  # its results count
    version: int  # of the spec: a higher one than it has means that it was changed
    metrics: Mapping[str, Any]  # of its node, as the last beat said


@dataclass(frozen=True, slots=True)
class Weight:
    """What a seat costs now."""

    seat: str
    node: str
    needs: Needs


class StreamScheduling(Protocol):
    """What the leader asks about streams. Whatever comes under a term that is over does nothing."""

    def streams(self) -> list[StreamRecord]:
        """Return all streams that have not ended."""
        ...

    def stream_nodes(self, streams: Sequence[StreamRecord]) -> list[StreamNode]:
        """Return the nodes that are there, as placement sees them."""
        ...

    def move_stream(self, epoch: str, term: int, stream: StreamRecord, step: Step, slots: float) -> bool:
        """Do one step with a stream. False: it is not as it was when that was decided."""
        ...

    def end_stream(self, epoch: str, term: int, stream: StreamRecord, state: str, why: str, result: str = "") -> bool:
        """End a stream. False: a seat of it still runs."""
        ...

    def weigh(self, epoch: str, term: int, weights: Sequence[Weight], said: Mapping[str, str]) -> bool:
        """Let seats hold what they cost, and say why streams wait."""
        ...


class SeatLedger(Protocol):
    """What a seat asks."""

    def charge(self, seat_id: str) -> Charge:
        """Return what a seat is to run.

        Raises:
            NoSuchJob: it is no seat of a stream, or that is forgotten.
        """
        ...

    def tell_seat(
        self, seat_id: str, token: str, telemetry: str, load: str, results: Sequence[str], *, first: int, ready: bool
    ) -> Heard | None:
        """Say how a seat is, and what it saw. None: its stream goes on without it."""
        ...
