"""Which nodes have had too much to do for too long, and which stream leaves each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jetq.policy.seats import Seating, Stream, StreamNode

#: A node has too much to do where what it holds is this much of what it has, or its processors are so busy …
FULL, BUSY = 1.02, 0.95
#: … until both are below this: between them nothing changes.
EASED, CALM = 0.92, 0.85
#: So long (s) before a stream is moved, and between two moves off a node, or onto one.
OVERLOAD_S = 30.0
#: A node that takes a stream from another is no fuller than this with it, so that it does not move on.
ROOMY = 0.80
#: A stream that was moved for this is left alone so long (s).
STAY_S = 300.0

#: Returns why a stream cannot be started on a node, "" if it can.
WhyNot = Callable[[Stream, str], str]


@dataclass(frozen=True, slots=True)
class Shed:
    """A stream that leaves a node which has too much to do; ``node`` "": nobody can take one."""

    stream: Stream
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Heat:
    """Since when nodes have had too much to do, and what was moved for it. All times: the clock of the looks."""

    since_s: Mapping[str, float] = field(default_factory=dict)  # node
    off_s: Mapping[str, float] = field(default_factory=dict)  # node: a stream left it
    onto_s: Mapping[str, float] = field(default_factory=dict)  # node: a stream came from another
    moved_s: Mapping[str, float] = field(default_factory=dict)  # stream

    def after(
        self, seating: Seating, streams: Sequence[Stream], why_not: WhyNot, now_s: float
    ) -> tuple[Heat, list[Shed]]:
        """Return the heat after one more look, and at most one stream for each node that has too much to do."""
        since_s = {
            node.name: self.since_s.get(node.name, now_s)
            for node in seating.nodes.values()
            if _too_much(seating.fill(node.name), node, was=node.name in self.since_s)
        }
        off_s, onto_s, moved_s = dict(self.off_s), dict(self.onto_s), dict(self.moved_s)
        sheds = []
        for name in sorted(since_s, key=lambda name: (since_s[name], name)):
            waited_s = now_s - max(since_s[name], off_s.get(name, since_s[name]))
            if waited_s < OVERLOAD_S or seating.nodes[name].leaving:
                continue
            calm = [
                other
                for other in seating.nodes
                if other not in since_s and now_s - onto_s.get(other, now_s - OVERLOAD_S) >= OVERLOAD_S
            ]
            shed = _choose(name, calm, seating, [s for s in streams if self._may(s, name, now_s)], why_not)
            if shed is None:
                continue
            sheds.append(shed)
            if shed.node:
                off_s[name] = onto_s[shed.node] = moved_s[shed.stream.id] = now_s
                seating.add(shed.stream, shed.node)
        return Heat(since_s, _young(off_s, now_s), _young(onto_s, now_s), _young(moved_s, now_s)), sheds

    def _may(self, stream: Stream, node: str, now_s: float) -> bool:
        owner = stream.owner
        if owner is None or owner.node != node or not owner.ready or stream.heir or stream.local or stream.asked:
            return False
        return now_s - self.moved_s.get(stream.id, now_s - STAY_S) >= STAY_S


def _too_much(fill: float, node: StreamNode, *, was: bool) -> bool:
    busy = node.cpu_busy or 0.0
    if fill >= FULL or busy >= BUSY:
        return True
    return was and (fill >= EASED or busy >= CALM)


def _choose(
    name: str, calm: Sequence[str], seating: Seating, movable: Sequence[Stream], why_not: WhyNot
) -> Shed | None:
    """Return the smallest stream that ends the overload, else the largest, and the node on which it costs least."""
    if not movable:
        return None
    node = seating.nodes[name]
    said = f"{name} has had too much to do for {OVERLOAD_S:g} s ({_fullness(seating.fill(name), node)})"
    excess = max(seating.fill(name), node.cpu_busy or 0.0) - EASED

    def share(stream: Stream) -> float:
        costs = seating.cost(stream, name)
        return max(costs.slots / node.machine.slots, costs.decode)

    def fitness(stream: Stream) -> tuple[bool, float, str]:
        enough = share(stream) >= excess
        return not enough, share(stream) if enough else -share(stream), stream.id

    for stream in sorted(movable, key=fitness):
        roomy = [other for other in calm if not why_not(stream, other) and _has_room(stream, other, seating)]
        if roomy:
            best = min(roomy, key=lambda other: (seating.nodes[other].hot, seating.price(stream, other), other))
            return Shed(stream, best, said)
    return Shed(min(movable, key=fitness), "", f"{said}; no node has room for one of its streams")


def _has_room(stream: Stream, name: str, seating: Seating) -> bool:
    node = seating.nodes[name]
    more = seating.fill_with(stream, name) - seating.fill(name)
    return seating.fill_with(stream, name) <= ROOMY and (node.cpu_busy or 0.0) + more <= ROOMY and not node.hot


def _fullness(fill: float, node: StreamNode) -> str:
    busy = "" if node.cpu_busy is None else f", its processors are {node.cpu_busy:.0%} busy"
    return f"it holds {fill:.0%} of what it has{busy}"


def _young(times_s: Mapping[str, float], now_s: float) -> dict[str, float]:
    return {name: at_s for name, at_s in times_s.items() if now_s - at_s < STAY_S}
