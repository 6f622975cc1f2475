"""Nodes as gangs see them, from what the ledger has of nodes, leases and jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from jetq.model.survey import ABSENT
from jetq.policy import boards, runtime
from jetq.policy.timetable import Hold, Room

#: Why a node that is there takes nothing new, by its state.
_WHY_NOT = {
    "starting": "is starting",
    "draining": "is draining",
    "stopping": "is stopping",
    "failing": "rests, because its jobs failed",
    "suspect": "has not been heard of",
}
#: A node's pace follows its trim in so many steps: where a gang is planned shall not change with each reading.
TRIM_STEPS = 4


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node as the ledger has it."""

    name: str
    record: Mapping[str, str]
    leases: Mapping[str, str]  # job id -> "slots gpu mem_bytes kind"
    knows_gangs: bool  # it has loaded the task that runs members

    @property
    def is_there(self) -> bool:
        """Whether it is known and has not left."""
        return self.record.get("state", "gone") not in ABSENT


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that holds a lease."""

    kind: str
    started_s: float | None  # the broker's clock; None: it has not begun
    runs_s: tuple[float, ...]  # how long jobs of its name ran, newest first
    limit_s: float | None = None
    whole: str = ""  # the gang or stream that it is part of
    stays: bool = False  # a stream whose camera hangs on its node: it cannot make room


def room(node: NodeRoom, jobs: Mapping[str, HeldJob], now_s: float) -> Room:
    """Return one node with what is held on it. ``jobs``: those that hold leases, by id."""
    record = node.record
    state = record.get("state", "gone")
    why_not = _WHY_NOT.get(state, "") if node.knows_gangs else "does not know the task gang.member"
    slots = int(record.get("slots") or 0)
    rate = boards.prior(record.get("board", ""))
    return Room(
        node.name,
        slots,
        int(record.get("gpu") or 0),
        int(record.get("mem") or 0),
        frozenset((record.get("labels") or "").split()),
        rate * math.ceil(float(record.get("trim") or 1) * TRIM_STEPS) / TRIM_STEPS,
        tuple(_hold(job, lease, jobs.get(job), now_s) for job, lease in sorted(node.leases.items())),
        why_not=why_not,
    )


def _hold(job_id: str, lease: str, job: HeldJob | None, now_s: float) -> Hold:
    slots, gpu, mem, kind = lease.split()
    ends_s = None if kind == "stream" else _ends(job, kind, now_s)
    if kind == "stream" and job is not None:
        job_id, kind = job.whole or job_id, "camera" if job.stays else kind
    return Hold(job_id, kind, float(slots), int(gpu), int(float(mem)), ends_s)


def _ends(job: HeldJob | None, kind: str, now_s: float) -> float:
    if job is None:
        return now_s
    predict = runtime.of_gang if kind == "gang" else runtime.of_task
    lasts_s = predict(job.runs_s, limit_s=job.limit_s)
    return runtime.end_s(job.started_s or now_s, lasts_s, now_s, limit_s=job.limit_s)
