"""What a node says about itself each second, and the row people read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Metrics:
    """One reading of a node. ``None`` means unknown, never zero."""

    cpu_busy: float | None = None  # 0..1 over all online cores
    gpu_busy: float | None = None  # 0..1
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    temp_c: float | None = None  # the hottest zone
    power_w: float | None = None
    load1: float | None = None  # runnable tasks, 1 minute mean
    rtt_s: float | None = None  # smoothed round trip to the broker

    def as_json(self) -> dict[str, Any]:
        """Return the reading as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What stays true of a node for one epoch."""

    name: str
    identity: str  # board serial, else MAC: tells two machines of one name apart
    epoch: str  # one run of an agent
    slots: int
    gpu: int  # GPUs that one job at a time may hold
    mem_bytes: int  # memory that jobs may declare
    board: str  # hardware model, "pc" where unknown
    labels: tuple[str, ...]  # implicit ones (gpu, arch=, board=, node=) included
    version: str  # jetq's
    door: str = ""  # where its HTTP port is and what opens it (JSON); never shown
    address: str = ""  # at which other nodes reach its machine; "": not known
    cores: int = 0  # online
    decode: str = ""  # what its decoder takes, where somebody says so (policy/decode.py)


@dataclass(frozen=True, slots=True)
class Beat:
    """What an agent says each second."""

    node: str
    epoch: str
    seq: int  # 1, 2, 3 … within the epoch
    state: str  # starting, up, draining or stopping
    rates: dict[str, float]  # strategy name -> what one lease more costs (policy/strategies.py)
    net: float  # cost of reaching this node, in service times
    weight: float  # static weight: slots x board prior
    trim: float  # 0.25..1
    metrics: Metrics
    running: tuple[tuple[str, str], ...] = ()  # (job id, claimer) of what runs here, or has asked to
    reserved: tuple[str, ...] = ()  # job ids that a lane has taken and not started


@dataclass(frozen=True, slots=True)
class BeatReply:
    """The ledger's answer to a beat."""

    accepted: bool  # False: the epoch is over; kill everything
    cohorts: tuple[str, ...] = ()  # the shared queues this node can serve
    used_slots: float = 0.0  # all live leases
    long_slots: float = 0.0  # of which streams and gangs
    cancel: tuple[str, ...] = ()  # claimers whose jobs were cancelled, or shall run elsewhere
    ended: int = 0  # jobs settled here in this epoch
    failed: int = 0  # of which FAILED
    drain_s: float | None = None  # the node drains, and what runs has this long to end
    over: str = ""  # why it was not accepted: replaced by another run, dead, gone (has left), unknown


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as ``jetq node list --json`` prints it."""

    name: str
    state: str  # starting, up, draining, drained, failing, stopping, stale, suspect, dead, gone
    slots: int
    used: float  # sum of live leases
    weight: float
    speed: dict[str, float]  # task name -> learned speed of this board relative to the prior (1.0)
    trim: float
    labels: list[str]
    board: str
    beat_age_s: float | None
    metrics: dict[str, Any]
    identity: str = ""
    epoch: str = ""
    version: str = ""
    why: str = ""  # it drains, fails, is suspect or dead
    running: list[str] = field(default_factory=list)
    address: str = ""  # at which other nodes reach its machine; nodes of one address share it
    cores: int = 0  # of the machine
    gpu: int = 0  # GPUs that jobs may hold

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)
