"""What the leader sees of the cluster in one look, and what it decides from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from jetq.model.claim import Held

#: States of a node that is not there.
ABSENT = frozenset({"gone", "dead"})
#: What is done about a job that was found broken (``store/lua/heal.lua`` says what each means).
Action = Literal["lost", "again", "find", "stuck", "push", "free"]


@dataclass(frozen=True, slots=True)
class Heard:
    """The last beat that came from a node."""

    node: str
    epoch: str
    seq: int


@dataclass(frozen=True, slots=True)
class Lead:
    """The answer to a leader, or to who would be one."""

    term: int  # 0: another leads
    time_s: float  # the server's clock (Unix)
    unsure: bool  # the server was started anew, and may have lost its last writes
    leader: Heard | None = None  # the node that leads, where it is another


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node: its last beat and its leases."""

    name: str
    epoch: str
    seq: int
    state: str
    slots: int
    running: frozenset[tuple[str, str]]  # (job id, claimer)
    reserved: frozenset[str]  # ids of jobs whose message a lane holds, not started
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """All nodes, and the unclaimed jobs of shared queues that have waited longest: (id, token), oldest first."""

    nodes: tuple[NodeView, ...]
    waiting: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A node that was not heard of: what it is now. Void if it has beaten since ``seq``."""

    node: str
    epoch: str
    seq: int
    state: Literal["suspect", "dead"]
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job that was found broken under ``token``, and what to do about it."""

    job_id: str
    token: str
    action: Action
    node: str
    why: str


def node_view(
    name: str,
    epoch: str,
    seq: str,
    state: str,
    slots: str,
    running: str,
    reserved: str,
    *,
    held: tuple[Held, ...],
) -> NodeView:
    """Return a node from the fields of its hash."""
    pairs = frozenset((str(job), str(claimer)) for job, claimer in json.loads(running or "[]"))
    return NodeView(
        name, epoch, int(seq or 0), state, int(slots or 0), pairs, frozenset(json.loads(reserved or "[]")), held
    )
