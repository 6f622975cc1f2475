"""Who holds what on each node until when, and what is reserved there for later. Pure; one look at the queue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jetq.model.needs import Needs

#: A job that should have ended by now, and has not, is expected to end after this time (s).
OVERDUE_S = 1.0
#: A stream that has to make room for a gang is gone after this time (s): it is first started elsewhere.
MOVE_S = 30.0
#: Slots are sums of fractions; what is missing by less than this is not missing.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Hold:
    """What one job holds on one node."""

    job_id: str
    kind: str  # task, stream, gang, or camera: a stream that cannot be moved
    slots: float
    gpu: int = 0
    mem_bytes: int = 0
    ends_s: float | None = None  # when it is predicted to end; None: never by itself (streams)


@dataclass(frozen=True, slots=True)
class Room:
    """One node as gangs see it: all of it, and who holds what."""

    name: str
    slots: int
    gpu: int = 0
    mem_bytes: int = 0
    labels: frozenset[str] = frozenset()
    pace: float = 1.0  # how fast one of its slots works; a gang runs at the pace of its slowest node
    holds: tuple[Hold, ...] = ()
    rests_until_s: float = 0.0  # it refused a gang, and is left alone until then (policy/backoff.py)
    why_not: str = ""  # it is there, but takes nothing new: "is draining"

    @property
    def idle_slots(self) -> float:
        """The slots that nobody holds now."""
        return self.slots - sum(hold.slots for hold in self.holds)

    def could(self, needs: Needs) -> bool:
        """Whether the node, empty, would be enough."""
        return (
            needs.slots <= self.slots + _ROUNDING
            and needs.gpu <= self.gpu
            and needs.mem_bytes <= self.mem_bytes
            and self.labels.issuperset(needs.labels)
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """The head gang's future nodes: what is *planned* there is not for others, unless they end before the start."""

    gang_id: str
    nodes: tuple[str, ...]
    needs: Needs  # on each of them
    start_s: float
    end_s: float
    promised_s: float | None = None  # the start it was promised when it became first of all, its bound having passed
    closed: tuple[str, ...] = ()  # nodes that nobody may use before the start, however shortly
    moves: tuple[str, ...] = ()  # streams to start elsewhere now

    @property
    def on(self) -> tuple[str, ...]:
        """All nodes where it keeps room."""
        return tuple(dict.fromkeys((*self.nodes, *self.closed)))


class Demand(NamedTuple):
    """What has to fit on a node, and for how long (s)."""

    needs: Needs
    lasts_s: float
    over_streams: bool = False


class _Span(NamedTuple):
    """Something is taken on a node from ``begin_s`` up to ``end_s``."""

    begin_s: float
    end_s: float
    moved_s: float  # the end for who may move streams
    slots: float
    gpu: int
    mem_bytes: int


class Timetable:
    """The nodes' holds and reservations over time. It is filled while the queue is looked at; nothing is taken out."""

    def __init__(self, rooms: Sequence[Room], now_s: float) -> None:
        self.now_s = now_s
        self.rooms = tuple(rooms)
        self._spans = {room.name: [_held(hold, now_s) for hold in room.holds] for room in rooms}

    def start(self, nodes: Sequence[str], demand: Demand) -> None:
        """Write down what starts now."""
        self._write(nodes, -math.inf, self.now_s + demand.lasts_s, demand.needs)

    def reserve(self, booked: Reservation) -> None:
        """Write down what is to start later."""
        shut = set(booked.closed)
        self._write([n for n in booked.nodes if n not in shut], booked.start_s, booked.end_s, booked.needs)
        self._write([n for n in booked.nodes if n in shut], -math.inf, booked.end_s, booked.needs)
        self._write([n for n in shut if n not in booked.nodes], -math.inf, booked.start_s, booked.needs)

    def fits(self, room: Room, demand: Demand, at_s: float) -> bool:
        """Whether the demand fits on a node from ``at_s`` to its end, beside all that is held and reserved there."""
        able = not room.why_not and at_s >= room.rests_until_s and room.could(demand.needs)
        return able and self._has_room(room, demand, at_s)

    def fitting(self, demand: Demand, at_s: float) -> list[Room]:
        """Return the nodes on which the demand fits from ``at_s`` on."""
        return [room for room in self.rooms if self.fits(room, demand, at_s)]

    def opening(self, demand: Demand, count: int) -> tuple[float, list[Room]] | None:
        """Return the first moment at which it fits on ``count`` nodes at once, and all nodes where it then does.

        None: not even when everything that ends has ended.
        """
        from_s = self.now_s
        while True:
            moments = sorted(m for room in self.rooms if (m := self._earliest(room, demand, from_s)) is not None)
            if len(moments) < count:
                return None
            at_s = moments[count - 1]
            fitting = self.fitting(demand, at_s)
            if len(fitting) >= count:
                return at_s, fitting
            from_s = at_s  # somewhere it fitted earlier and no longer does: look on from here

    def _earliest(self, room: Room, demand: Demand, from_s: float) -> float | None:
        if room.why_not or not room.could(demand.needs):
            return None
        from_s = max(from_s, room.rests_until_s)
        if self._has_room(room, demand, from_s):
            return from_s
        ends = {span.moved_s if demand.over_streams else span.end_s for span in self._spans[room.name]}
        later = sorted(end_s for end_s in ends if from_s < end_s < math.inf)
        return next((end_s for end_s in later if self._has_room(room, demand, end_s)), None)

    def _has_room(self, room: Room, demand: Demand, at_s: float) -> bool:
        if not self._free(room, demand, at_s):
            return False
        end_s = at_s + demand.lasts_s
        # What is taken grows only where a span begins.
        begins = [span.begin_s for span in self._spans[room.name] if at_s < span.begin_s < end_s]
        return not begins or all(self._free(room, demand, begin_s) for begin_s in begins)

    def _free(self, room: Room, demand: Demand, at_s: float) -> bool:
        needs = demand.needs
        slots, gpu, mem_bytes = needs.slots, needs.gpu, needs.mem_bytes
        for span in self._spans[room.name]:
            if span.begin_s <= at_s < (span.moved_s if demand.over_streams else span.end_s):
                slots += span.slots
                gpu += span.gpu
                mem_bytes += span.mem_bytes
        return slots <= room.slots + _ROUNDING and gpu <= room.gpu and mem_bytes <= room.mem_bytes

    def _write(self, nodes: Sequence[str], begin_s: float, end_s: float, needs: Needs) -> None:
        span = _Span(begin_s, end_s, end_s, needs.slots, needs.gpu, needs.mem_bytes)
        for node in nodes:
            self._spans[node].append(span)


def _held(hold: Hold, now_s: float) -> _Span:
    end_s = math.inf if hold.ends_s is None else max(hold.ends_s, now_s + OVERDUE_S if hold.ends_s <= now_s else 0.0)
    moved_s = min(end_s, now_s + MOVE_S) if hold.kind == "stream" else end_s
    return _Span(-math.inf, end_s, moved_s, hold.slots, hold.gpu, hold.mem_bytes)
