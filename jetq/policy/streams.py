"""Which node runs each stream, and what is to be done about it now. Pure: same look in, same steps out.

A stream stays where it is. It is moved by the death of its node, a drain, an overload of 30 s, or because it was asked
to (a gang, other labels). Whoever applies the steps gives ``hand`` one atomic change of owner: there are never two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jetq.policy import backoff
from jetq.policy.backoff import Rest
from jetq.policy.fits import named
from jetq.policy.overload import Heat, Shed, WhyNot
from jetq.policy.seats import Seat, Seating, Stream, StreamNode

#: An heir has so long (s) to show its first frame; then its node gets the stream no more for a while.
HEIR_S = 20.0
#: start: no owner lives, and this node becomes it; other seats are void. prepare: this node becomes the heir. hand: the
#: heir becomes the owner, the old owner is stopped. drop: the heir is stopped. stop: the owner is, nobody follows yet.
Verb = Literal["start", "prepare", "hand", "drop", "stop"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do."""

    verb: Verb
    stream: str
    node: str  # that is to start, or (drop, stop) to end it
    why: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What a look hands on to the next. A new leader begins with an empty one: at first it moves less, never more."""

    heat: Heat = field(default_factory=Heat)
    rests: Mapping[tuple[str, str], Rest] = field(default_factory=dict)  # (stream, node): it did not begin there


@dataclass(frozen=True, slots=True)
class Look:
    """What follows from one look."""

    steps: tuple[Step, ...]
    waiting: Mapping[str, str]  # stream -> why it has no node, or cannot leave the one that it should
    memory: Memory


def look(streams: Sequence[Stream], nodes: Sequence[StreamNode], memory: Memory, now_s: float) -> Look:
    """Return the steps that bring each stream to one live node, and keep it there.

    Args:
        streams: all that shall run, and who owns them.
        nodes: those that are alive. Who is missing is dead: its streams are started elsewhere at once.
        memory: of the last look.
        now_s: any clock that only goes forward, the same in all looks.
    """
    return _Look(streams, nodes, memory, now_s).run()


class _Look:
    def __init__(self, streams: Sequence[Stream], nodes: Sequence[StreamNode], memory: Memory, now_s: float) -> None:
        self.now_s = now_s
        self.streams = sorted(streams, key=lambda stream: stream.id)
        self.seating = Seating(nodes, self.streams)
        self.memory = memory
        self.rests = {
            key: rest
            for key, rest in memory.rests.items()
            if now_s < rest.until_s + backoff.FORGET_S and key[1] in self.seating.nodes
        }
        self.steps: list[Step] = []
        self.waiting: dict[str, str] = {}

    def run(self) -> Look:
        lost: list[Stream] = []
        leaving: list[tuple[Stream, Seat, str]] = []
        for stream in self.streams:
            owner, heir = self._living(stream.owner), self._living(stream.heir)
            if owner is None and heir is None:
                lost.append(stream)
            elif owner is None and heir is not None:
                self._step("hand", stream, heir.node, _gone(stream))
            elif owner is not None and stream.heir is not None:
                self._inherit(stream, owner, stream.heir)
            elif owner is not None and (why := self._why_leave(stream, owner)):
                leaving.append((stream, owner, why))
        for stream in self._largest_first(lost):
            self._start(stream)
        for stream, owner, why in leaving:
            self._leave(stream, owner, why)
        heat, sheds = self.memory.heat.after(self.seating, self.streams, self._why_not, self.now_s)
        for shed in sheds:
            self._shed(shed)
        return Look(tuple(self.steps), self.waiting, Memory(heat, self.rests))

    def _living(self, seat: Seat | None) -> Seat | None:
        return seat if seat is not None and seat.node in self.seating.nodes else None

    def _inherit(self, stream: Stream, owner: Seat, heir: Seat) -> None:
        """Go on with a move that has begun."""
        there = self.seating.nodes.get(heir.node)
        if there is None or there.leaving:
            self._step("drop", stream, heir.node, there.leaving if there else "is dead")
        elif heir.ready:
            self._step("hand", stream, heir.node, "its frames come")
        elif not owner.ready:
            self._step("hand", stream, heir.node, f"{owner.node} has no frames to lose")
        elif self.now_s - heir.since_s >= HEIR_S:
            key, why = (stream.id, heir.node), f"showed no frame within {HEIR_S:g} s"
            self.rests[key] = backoff.refused(self.rests.get(key), self.now_s, why)
            self._step("drop", stream, heir.node, why)

    def _why_leave(self, stream: Stream, owner: Seat) -> str:
        node = self.seating.nodes[owner.node]
        if not node.labels.issuperset(stream.labels):
            return "does not carry its labels any more"
        return node.leaving or ("" if stream.local else stream.asked)

    def _start(self, stream: Stream) -> None:
        node = self._best(stream)
        if node is not None:
            self.seating.add(stream, node)
            self._step("start", stream, node, _gone(stream))

    def _leave(self, stream: Stream, owner: Seat, why: str) -> None:
        if stream.local:
            # Two processes cannot open its camera, and on no other node is there one.
            self._step("stop", stream, owner.node, why)
            self.waiting[stream.id] = f"its camera is on {owner.node}, which {why}"
            return
        if all(node.leaving for node in self.seating.nodes.values()):
            # Nobody will ever take it in time, and its node would wait for it in vain.
            self._step("stop", stream, owner.node, why)
            self.waiting[stream.id] = f"{owner.node} {why}, and there is no other node"
            return
        node = self._best(stream)
        if node is not None:
            self.seating.add(stream, node)
            self._step("prepare", stream, node, f"{owner.node} {why}")

    def _shed(self, shed: Shed) -> None:
        if shed.node:
            self._step("prepare", shed.stream, shed.node, shed.why)
        else:
            self.waiting[shed.stream.id] = shed.why

    def _best(self, stream: Stream) -> str | None:
        """Return the node on which it costs least; one that is hot, or has just lost it, where there is no other.

        Remember why there is none.
        """
        names = [name for name in self.seating.nodes if not self._why_not(stream, name)]
        if not names:
            self.waiting[stream.id] = why_nowhere(stream, self.seating, self._why_not)
            return None
        nodes = self.seating.nodes
        return min(
            names, key=lambda name: (name == stream.shaky, nodes[name].hot, self.seating.price(stream, name), name)
        )

    def _why_not(self, stream: Stream, name: str) -> str:
        if stream.owner is not None and stream.owner.node == name:
            return "has it now"
        rest = self.rests.get((stream.id, name))
        if rest is not None and self.now_s < rest.until_s:
            return rest.why
        return self.seating.why_not(stream, name)

    def _largest_first(self, streams: Iterable[Stream]) -> list[Stream]:
        """Return streams so that the last ones fill the gaps: that keeps nodes even."""

        def size(stream: Stream) -> float:
            costs = ((self.seating.cost(stream, node.name), node) for node in self.seating.nodes.values())
            return max((cost.slots / node.machine.slots for cost, node in costs), default=0.0)

        return sorted(streams, key=lambda stream: (-size(stream), stream.id))

    def _step(self, verb: Verb, stream: Stream, node: str, why: str) -> None:
        self.steps.append(Step(verb, stream.id, node, why))


def _gone(stream: Stream) -> str:
    return "nobody has it" if stream.owner is None else f"{stream.owner.node} is dead"


def why_nowhere(stream: Stream, seating: Seating, why_not: WhyNot) -> str:
    """Return why no node can take a stream now, each with its reason."""
    if not seating.nodes:
        return "no node is there"
    return "no node can take it now: " + named([f"{name} {why_not(stream, name)}" for name in sorted(seating.nodes)])
