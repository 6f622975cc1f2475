"""A gang in the ledger: its state, its members on their nodes, and what each of them reports at its end."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jetq.model.gang import GangSpec
from jetq.model.job import TERMINAL, JobState

#: Who pays for a failure: the machinery's budget, the program's, or nobody.
Cost = Literal["infra", "app", "none"]
#: The task that runs a member.
MEMBER_TASK = "gang.member"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a member says went wrong."""

    at_s: float  # the broker's clock (Unix)
    cost: Cost
    why: str  # "exited with code 1"
    rank: int | None = None  # None: the node itself
    node: str = ""  # whose fault it is; "": the member's own


@dataclass(frozen=True, slots=True)
class Report:
    """How a member ended. It crosses the wire as the result of its task."""

    code: int | None = None  # of what it started; None: it started nothing, or was stopped
    faults: tuple[Fault, ...] = ()
    stopped: bool = False  # it was asked to end
    tail: tuple[str, ...] = ()  # the last lines of the rank that failed first here

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        faults = [{name: getattr(fault, name) for name in Fault.__slots__} for fault in self.faults]
        return {"code": self.code, "faults": faults, "stopped": self.stopped, "tail": list(self.tail)}

    @classmethod
    def parse(cls, text: str) -> Report:
        """Read what the ledger keeps."""
        said = json.loads(text)
        return cls(said["code"], tuple(Fault(**f) for f in said["faults"]), said["stopped"], tuple(said["tail"]))


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of a start, as its record says."""

    job_id: str
    index: int
    node: str
    state: JobState
    report: Report | None  # None: it has not ended by itself
    error: str  # why it was lost
    cost: Cost  # of that
    ended_s: float  # when it ended, or its node was last heard of (the broker's clock)

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class GangView:
    """A gang that has not ended, as the leader sees it. Times: the broker's clock (Unix, s)."""

    id: str
    spec: GangSpec
    state: JobState
    submitted_s: float
    starts: int  # how often it got its nodes
    attempt: int  # how often its ranks began
    over_streams: bool
    cancel_asked: bool
    stopping: str  # why this start ends; "": it does not
    reserved_s: float | None
    started_s: float | None
    not_before_s: float
    least: int  # nodes of the next start
    most: int
    tally: Mapping[str, int]
    members: tuple[MemberView, ...]
    arrived: frozenset[int] = frozenset()  # indexes of the members that have said hello
    shared: bool = False  # its checkpoints are on storage that all its nodes share
    runs_s: tuple[float, ...] = ()  # the last runtimes of its name, newest first
    reason: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of this start."""
        return tuple(member.node for member in self.members)


@dataclass(frozen=True, slots=True)
class Part:
    """What a member finds out about its gang when it begins."""

    gang_id: str
    index: int
    nodes: tuple[str, ...]  # of all members, in their order
    start: int
    attempt: int  # that begins now; 1 is the first
    token: str  # of this start
    spec: GangSpec
    keep: bool  # leave its folder
    slots: float  # of the node
    gpus: int
    time_s: float  # the broker's clock (Unix) …
    read_s: float  # … and this machine's, at that moment

    def now_s(self) -> float:
        """Return the broker's clock, as far as this machine knows it."""
        return self.time_s + time.time() - self.read_s


@dataclass(frozen=True, slots=True)
class GangLine:
    """One line that a rank (or a member itself: rank None) wrote."""

    at_s: float  # the broker's clock (Unix)
    node: str
    rank: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is told of a gang that waits."""

    gang_id: str
    expected_s: float | None  # the broker's clock
    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept free on a node for gangs that wait."""

    node: str
    slots: float = 0.0
    gpu: int = 0
    mem_bytes: int = 0
    until_s: float = 0.0  # others may have it until then (the broker's clock)

    def as_text(self) -> str:
        """Return it as the ledger keeps it; "" for nothing."""
        return json.dumps([self.slots, self.gpu, self.mem_bytes, self.until_s]) if self.slots else ""
