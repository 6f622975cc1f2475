"""Streams on nodes in virtual time: applies the steps of ``streams.look``, and checks what must hold at each look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from jetq.policy.seats import Seat, Seating, Stream, StreamNode
from jetq.policy.streams import Look, Memory, look

#: The first frames of a stream come after this time (s).
BEGIN_S = 1.0


@dataclass
class Fleet:
    """Nodes and streams; ``turn`` is one look of the leader, the steps applied, and a second that passes."""

    nodes: dict[str, StreamNode]
    streams: dict[str, Stream]
    now_s: float = 1000.0
    memory: Memory = field(default_factory=Memory)
    #: Streams whose frames do not come on a node.
    mute: Callable[[Stream, str], bool] = lambda stream, node: False
    steps: list[tuple[float, str, str, str]] = field(default_factory=list)  # at_s, verb, stream, node
    unowned_looks: Counter[str] = field(default_factory=Counter)  # in a row
    waiting: dict[str, str] = field(default_factory=dict)

    def turn(self, seconds: float = 1.0) -> Look:
        """Look once."""
        self._frames()
        seen = look(list(self.streams.values()), list(self.nodes.values()), self.memory, self.now_s)
        self.check(seen)
        self.memory, self.waiting = seen.memory, dict(seen.waiting)
        for step in seen.steps:
            self.apply(step.verb, step.stream, step.node)
        for stream in self.streams.values():
            owned = stream.owner is not None and stream.owner.node in self.nodes
            self.unowned_looks[stream.id] = 0 if owned else self.unowned_looks[stream.id] + 1
        self.now_s += seconds
        return seen

    def turns(self, count: int, seconds: float = 1.0) -> None:
        """Look so often."""
        for _ in range(count):
            self.turn(seconds)

    def _frames(self) -> None:
        def later(stream: Stream, seat: Seat | None) -> Seat | None:
            if seat is None or self.now_s - seat.since_s < BEGIN_S or self.mute(stream, seat.node):
                return seat
            return replace(seat, ready=True)

        self.streams = {s.id: replace(s, owner=later(s, s.owner), heir=later(s, s.heir)) for s in self.streams.values()}

    def apply(self, verb: str, stream_id: str, node: str) -> None:
        """Do what a step says, as the ledger would: with one owner at any time."""
        stream = self.streams[stream_id]
        if verb == "start":
            assert stream.owner is None or stream.owner.node not in self.nodes, "a second owner"
            stream = replace(stream, owner=Seat(node, self.now_s), heir=None)
        elif verb == "prepare":
            assert stream.owner is not None and stream.heir is None and stream.owner.node != node
            stream = replace(stream, heir=Seat(node, self.now_s))
        elif verb == "hand":
            assert stream.heir is not None and stream.heir.node == node
            stream = replace(stream, owner=stream.heir, heir=None)
        elif verb == "drop":
            assert stream.heir is not None and stream.heir.node == node
            stream = replace(stream, heir=None)
        else:
            assert verb == "stop" and stream.owner is not None and stream.owner.node == node
            stream = replace(stream, owner=None)
        self.streams[stream_id] = stream
        self.steps.append((self.now_s, verb, stream_id, node))

    def check(self, seen: Look) -> None:
        """Assert what holds for any look."""
        assert len({step.stream for step in seen.steps}) == len(seen.steps), "two steps for one stream"
        seating = Seating(list(self.nodes.values()), self.streams.values())
        for step in seen.steps:
            stream = self.streams[step.stream]
            if step.verb in ("start", "prepare"):
                node = self.nodes[step.node]
                assert not seating.why_not(stream, step.node), "it did not fit"
                assert not node.leaving and not node.why_not
                assert node.labels.issuperset(stream.labels)
                seating.add(stream, step.node)
            if stream.local:
                assert step.verb in ("start", "stop"), "a local camera has no heir"

    def count(self, verb: str, *, since_s: float = 0.0) -> int:
        """Return how many steps of a kind there were."""
        return sum(1 for at_s, done, _, _ in self.steps if done == verb and at_s >= since_s)

    def fills(self) -> dict[str, float]:
        """Return how full each node is by what its streams take."""
        seating = Seating(list(self.nodes.values()), self.streams.values())
        return {name: seating.fill(name) for name in self.nodes}

    def owner(self, stream_id: str) -> str | None:
        """Return who owns a stream."""
        seat = self.streams[stream_id].owner
        return seat.node if seat else None

    def change(self, name: str, **fields: object) -> None:
        """Change a node."""
        self.nodes[name] = replace(self.nodes[name], **fields)  # type: ignore[arg-type]

    def load(self, stream_id: str, cores: float) -> None:
        """Change what a stream takes."""
        stream = self.streams[stream_id]
        self.streams[stream_id] = replace(stream, load=replace(stream.load, cores=cores))
