"""Streams and nodes as placement sees them, and how full each node is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jetq.policy.streamcost import Cost, Load, Machine, cost

#: Slots are sums of fractions; what is missing by less than this is not missing.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Seat:
    """A node that runs a stream, or is to. A seat on a node that has begun a new epoch since is none."""

    node: str
    since_s: float  # when it was given to the node
    ready: bool = False  # frames come, and are looked at


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that shall run. One that has FAILED or was cancelled is none."""

    id: str
    load: Load
    declared: float | None = None  # slots
    labels: tuple[str, ...] = ()  # the node of a local camera among them
    gpu: int = 0
    mem_bytes: int = 0
    local: bool = False  # its camera is opened by one process at a time
    owner: Seat | None = None  # whose results count
    heir: Seat | None = None  # takes over as soon as its frames come
    asked: str = ""  # why it has to leave its node though that is well: a gang, other labels
    shaky: str = ""  # the node that has just lost it though it is there: its lane may need a while to be back


@dataclass(frozen=True, slots=True)
class Taken:
    """What others have on a node."""

    slots: float = 0.0
    gpu: int = 0
    mem_bytes: int = 0


NOTHING = Taken()


@dataclass(frozen=True, slots=True)
class StreamNode:
    """A node as streams see it. One that is dead, or gone, is not in the list."""

    name: str
    machine: Machine
    labels: frozenset[str] = frozenset()
    gpu: int = 0
    mem_bytes: int = 0
    gangs: Taken = NOTHING  # tasks end soon, and make room
    planned: Taken = NOTHING  # kept for gangs that wait
    trim: float = 1.0  # 0.25..1 (policy/trim.py)
    cpu_busy: float | None = None  # 0..1, smoothed
    hot: bool = False  # streams run here with fewer frames than they want (policy/stepdown.py)
    leaving: str = ""  # it shall be empty: "drains"
    why_not: str = ""  # it keeps what it has, and takes nothing new: "is suspect"


class Seating:
    """Who sits where, filled in one look: the sum of what streams and gangs hold on each node."""

    def __init__(self, nodes: Sequence[StreamNode], streams: Iterable[Stream]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._slots = {node.name: node.gangs.slots for node in nodes}
        self._decode = dict.fromkeys(self.nodes, 0.0)
        self._gpu = {node.name: node.gangs.gpu for node in nodes}
        self._mem = {node.name: node.gangs.mem_bytes for node in nodes}
        for stream in streams:
            for seat in (stream.owner, stream.heir):
                if seat is not None and seat.node in self.nodes:
                    self.add(stream, seat.node)

    def add(self, stream: Stream, node: str) -> None:
        """Count a stream on a node."""
        costs = self.cost(stream, node)
        self._slots[node] += costs.slots
        self._decode[node] += costs.decode
        self._gpu[node] += stream.gpu
        self._mem[node] += stream.mem_bytes

    def cost(self, stream: Stream, node: str) -> Cost:
        """Return what a stream costs on a node."""
        return cost(stream.load, self.nodes[node].machine, stream.declared)

    def fill(self, node: str) -> float:
        """Return how full a node is by what it holds: 1.0 is all of its slots, or of its decoder."""
        return max(self._slots[node] / self.nodes[node].machine.slots, self._decode[node])

    def fill_with(self, stream: Stream, node: str) -> float:
        """Return how full it would be with a stream more."""
        costs = self.cost(stream, node)
        slots = (self._slots[node] + costs.slots) / self.nodes[node].machine.slots
        return max(slots, self._decode[node] + costs.decode)

    def price(self, stream: Stream, node: str) -> float:
        """Return what placement compares: how full a node would be of what it is worth right now."""
        return self.fill_with(stream, node) / self.nodes[node].trim

    def why_not(self, stream: Stream, name: str) -> str:
        """Return why a stream cannot be started on a node now, "" if it can."""
        node = self.nodes[name]
        return why_never(stream, node) or node.leaving or node.why_not or self._refused(stream, node)

    def _refused(self, stream: Stream, node: StreamNode) -> str:
        costs, name, planned = self.cost(stream, node.name), node.name, node.planned
        if costs.decode and self._decode[name] + costs.decode > 1.0 + _ROUNDING:
            return f"its decoder is at {self._decode[name]:.0%}; the stream costs {costs.decode:.0%}"
        if self._slots[name] + costs.slots + planned.slots > node.machine.slots + _ROUNDING:
            kept = f", and {planned.slots:g} are kept for gangs" if planned.slots else ""
            free = max(0.0, node.machine.slots - self._slots[name])
            return f"has {free:.2f} of {node.machine.slots} slots free{kept}; the stream costs {costs.slots:.2f}"
        if self._gpu[name] + stream.gpu + planned.gpu > node.gpu:
            return "its GPU is taken"
        if stream.mem_bytes and self._mem[name] + stream.mem_bytes + planned.mem_bytes > node.mem_bytes:
            return "has too little memory free"
        return ""


def why_never(stream: Stream, node: StreamNode) -> str:
    """Return why a stream cannot run on a node however empty, "" if it can."""
    missing = [label for label in stream.labels if label not in node.labels]
    if missing:
        return f"does not carry {', '.join(missing)}"
    if stream.gpu > node.gpu:
        return "has no GPU"
    if stream.mem_bytes > node.mem_bytes:
        return "has too little memory"
    if (stream.declared or 0.0) > node.machine.slots:
        return f"has {node.machine.slots} slots; the stream costs {stream.declared:g}"
    return ""
