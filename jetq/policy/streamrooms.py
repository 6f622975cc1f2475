"""Streams and nodes as placement sees them, from what the ledger has of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jetq.model.charge import SEAT_TASK, End
from jetq.model.job import TERMINAL, JobState
from jetq.model.stream import StreamSpec
from jetq.model.survey import ABSENT
from jetq.policy import boards, decode
from jetq.policy.seats import Seat, Stream, StreamNode, Taken
from jetq.policy.streamcost import Load, Machine, guess

#: States of a node that shall be empty, and of one that keeps what it has and takes nothing new.
_LEAVING = {"draining": "drains", "stopping": "is stopping"}
_WHY_NOT = {
    "starting": "is starting",
    "failing": "rests, because its jobs failed",
    "suspect": "has not been heard of",
    "draining": "is too hot, or short of memory",  # it says so itself; nobody has asked for a drain
}


#: What of a stream's record, and of a seat's, a leader looks at. It does so twice a second, so it reads no more.
STREAM_FIELDS = ("spec", "turn", "load", "owner", "heir", "cancel_asked", "reason", "started_at")
SEAT_FIELDS = ("state", "node", "lost_at", "ready_at", "result", "error", "reason", "lease", "telemetry")
#: Stands for what cannot be read.
_UNREAD = StreamSpec("test:still")


@dataclass(frozen=True, slots=True)
class SeatRecord:
    """One seat of a stream as the ledger has it."""

    id: str
    node: str
    state: JobState
    ready: bool
    end: End | None  # it has ended by itself
    error: str  # why it was lost
    lost: bool  # with what ran it: its node, its lane; False: it has ended by itself, or lives
    slots: float  # of its lease
    hot: bool  # it gets fewer frames than it wants, because its node is hot
    since_s: float = 0.0  # when who looks saw it first, by its own clock

    @property
    def live(self) -> bool:
        """Whether it holds its node."""
        return self.state not in TERMINAL


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream that has not ended, as the ledger has it."""

    id: str
    spec: StreamSpec
    turn: int = 0  # steps that were done with it
    load: Load | None = None  # measured
    owner: SeatRecord | None = None
    heir: SeatRecord | None = None
    cancel_asked: bool = False
    reason: str = ""
    ran: bool = False  # it has been somewhere before

    def stream(self, asked: str = "") -> Stream:
        """Return it as placement sees it. A seat whose run has ended is none."""
        spec = self.spec
        return Stream(
            self.id,
            self.load or guess(spec),
            spec.cost,
            spec.required,
            spec.gpu,
            spec.mem_bytes,
            spec.camera.local,
            _seat(self.owner),
            _seat(self.heir),
            asked,
            self.owner.node if self.owner is not None and self.owner.lost and not self.owner.live else "",
        )


def _seat(record: SeatRecord | None) -> Seat | None:
    return Seat(record.node, record.since_s, record.ready) if record is not None and record.live else None


def seat_record(seat_id: str, record: Mapping[str, str]) -> SeatRecord | None:
    """Return a seat from its record; None: it is not there any more."""
    if not record.get("state"):
        return None
    state = JobState(record["state"])
    end, error = None, record.get("error") or record.get("reason") or ""
    if state is JobState.SUCCEEDED:
        try:
            end = End.parse(record.get("result", ""))
        except (ValueError, TypeError, KeyError) as exc:
            error = f"its report cannot be read: {exc}"
    return SeatRecord(
        seat_id,
        record.get("node", ""),
        state,
        "ready_at" in record,
        end,
        error,
        "lost_at" in record,
        float((record.get("lease") or "0").split()[0]),
        bool((_json(record.get("telemetry")) or {}).get("slowed")),
    )


def stream_record(
    job_id: str, record: Mapping[str, str], owner: SeatRecord | None, heir: SeatRecord | None
) -> StreamRecord:
    """Return a stream from its record.

    Raises:
        UsageError, TypeError, ValueError: what it asks for cannot be read.
    """
    return StreamRecord(
        job_id,
        _spec_of(record["spec"]),
        int(record.get("turn") or 0),
        load_of(record.get("load", "")),
        owner,
        heir,
        bool(record.get("cancel_asked")),
        record.get("reason", ""),
        "started_at" in record,
    )


def ending_record(
    job_id: str, record: Mapping[str, str], owner: SeatRecord | None, heir: SeatRecord | None
) -> StreamRecord:
    """Return a stream that is being cancelled because what it asks for cannot be read."""
    turn, reason = int(record.get("turn") or 0), record.get("reason", "")
    return StreamRecord(job_id, _UNREAD, turn, None, owner, heir, cancel_asked=True, reason=reason)


def load_of(text: str) -> Load | None:
    """Read what a seat said that its stream takes; what another version of jetq said may be unreadable: not known."""
    try:
        return Load(*json.loads(text)) if text else None
    except (TypeError, ValueError):
        return None


def load_text(load: Load | None) -> str:
    """Return a load as seats tell it, "" where it is not known."""
    return json.dumps([load.cores, load.pixels_s, load.codec, load.by_board]) if load else ""


def stream_node(
    name: str,
    record: Mapping[str, str],
    leases: Mapping[str, str],
    *,
    seats: Sequence[str],
    knows: bool,
    hot: bool,
) -> StreamNode | None:
    """Return one node; None: it is not there.

    Args:
        leases: job id -> "slots gpu mem_bytes kind". seats: those of them that streams are counted for by themselves.
        knows: whether it has loaded the task that runs streams. hot: streams run here with fewer frames than they want.
    """
    state = record.get("state", "gone")
    if state in ABSENT:
        return None
    asked = state == "stopping" or (state == "draining" and "drain" in record)
    why_not = "" if knows else f"does not know the task {SEAT_TASK}"
    metrics = _json(record.get("metrics")) or {}
    return StreamNode(
        name,
        machine(record),
        frozenset((record.get("labels") or "").split()),
        int(record.get("gpu") or 0),
        int(record.get("mem") or 0),
        _taken([lease for job, lease in leases.items() if job not in seats]),
        Taken(*(_json(record.get("planned")) or (0.0, 0, 0))[:3]),
        float(record.get("trim") or 1),
        metrics.get("cpu_busy"),
        hot,
        _LEAVING[state] if asked else "",
        why_not or _WHY_NOT.get(state, ""),
    )


def machine(record: Mapping[str, str]) -> Machine:
    """Return what of a node's record decides about costs."""
    board = record.get("board", "")
    return Machine(
        max(1, int(record.get("slots") or 1)),
        int(record.get("cores") or 0),
        boards.prior(board),
        decode.budget(board, record.get("decode", "")),
    )


def _taken(leases: Sequence[str]) -> Taken:
    """Return what gangs and streams that are leaving hold; tasks end soon, and make room."""
    slots, gpu, mem = 0.0, 0, 0
    for lease in leases:
        words = lease.split()
        if words[3] != "task":
            slots, gpu, mem = slots + float(words[0]), gpu + int(words[1]), mem + int(float(words[2]))
    return Taken(slots, gpu, mem)


@lru_cache(maxsize=1024)
def _spec_of(text: str) -> StreamSpec:
    """Return what a stream asks for. A leader reads the same again and again, and each time it is checked whole."""
    return StreamSpec.from_json(json.loads(text))


def _json(text: str | None) -> Any:
    return json.loads(text) if text else None
