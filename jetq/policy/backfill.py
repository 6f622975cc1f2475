"""Which gangs start now, and which nodes are planned for those that cannot: EASY backfill. Pure.

The first gang of each label class that cannot start gets a reservation: the earliest moment at which, by what is
predicted, its nodes are free together. Everybody behind may start as long as no reservation is in the way: by ending
before it, or by leaving enough room beside it. A gang gets all its nodes at once or none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from jetq.model.needs import Needs
from jetq.policy.placement import choose
from jetq.policy.timetable import MOVE_S, Reservation, Room, Timetable
from jetq.policy.turns import LabelClass, QueuedGang, in_turn

#: A gang that waits longer than its bound gets so long (s) after the start it was promised before its nodes are closed.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Start:
    """A gang that starts now, on all of these nodes."""

    gang_id: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from one look at the queue."""

    starts: tuple[Start, ...]
    reservations: tuple[Reservation, ...]  # at most one for each label class


def decide(
    queue: Iterable[QueuedGang], rooms: Sequence[Room], now_s: float, *, before: Iterable[Reservation] = ()
) -> Decision:
    """Return who starts and what is planned.

    Args:
        queue: the gangs that wait, any order.
        rooms: the nodes that are there.
        before: the reservations of the last decision. Planned nodes stay where they are if that costs nothing, and
            what was closed for a gang stays closed until it starts. Without them nothing goes wrong.
    """
    table = Timetable(rooms, now_s)
    last = {booked.gang_id: booked for booked in before}
    starts: list[Start] = []
    booked: dict[LabelClass, Reservation] = {}
    # Room only gets less during one look: where a gang found too little, none that asks for as much finds enough.
    refused: dict[Needs, list[tuple[int, float]]] = {}
    hopeless: dict[tuple[Needs, bool], int] = {}
    for gang in in_turn(queue, now_s):
        kind = (gang.needs, gang.over_streams)
        headless = gang.label_class not in booked and gang.least < hopeless.get(kind, math.inf)
        tried = refused.setdefault(gang.needs, [])
        known = any(least <= gang.least and lasts_s <= gang.predicted_s for least, lasts_s in tried)
        nodes = () if known else _now(gang, table, booked.values(), last.get(gang.id))
        if nodes:
            starts.append(Start(gang.id, nodes))
            table.start(nodes, gang.demand)
            continue
        if not known:
            tried.append((gang.least, gang.predicted_s))
        if not headless:
            continue
        later = _later(gang, table, booked.values(), last.get(gang.id))
        if later is None:
            hopeless[kind] = gang.least
        else:
            booked[gang.label_class] = later
            table.reserve(later)
    return Decision(tuple(starts), tuple(booked.values()))


def _now(
    gang: QueuedGang, table: Timetable, booked: Iterable[Reservation], last: Reservation | None
) -> tuple[str, ...]:
    # It starts beside the streams that are there: where they have to move, they do so before (``Reservation.moves``).
    fitting = table.fitting(gang.demand._replace(over_streams=False), table.now_s)
    if len(fitting) < gang.least:
        return ()
    others = {node for reservation in booked for node in reservation.on}
    own = last.nodes if last else ()
    return tuple(room.name for room in choose(fitting, gang.least, gang.most, own=own, planned=others))


def _later(
    gang: QueuedGang, table: Timetable, booked: Collection[Reservation], last: Reservation | None
) -> Reservation | None:
    opening = table.opening(gang.demand, gang.least)
    if opening is None:
        return None
    start_s, fitting = opening
    crowded = {
        room.name
        for room in fitting
        if gang.over_streams and not table.fits(room, gang.demand._replace(over_streams=False), start_s)
    }
    others = {node for reservation in booked for node in reservation.on}
    own = last.nodes if last else ()
    nodes = choose(fitting, gang.least, gang.least, own=own, planned=others, crowded=crowded)
    reservation = Reservation(
        gang.id,
        tuple(room.name for room in nodes),
        gang.needs,
        start_s,
        start_s + gang.predicted_s,
        moves=tuple(
            stream
            for room in nodes
            if room.name in crowded and start_s <= table.now_s + MOVE_S
            for stream in _moved(room, gang.needs, start_s)
        ),
    )
    first = not booked and gang.due_s <= table.now_s
    return _insisting(reservation, last, table) if first else reservation


def _insisting(reservation: Reservation, last: Reservation | None, table: Timetable) -> Reservation:
    """Return the reservation of the first gang of all, whose bound has passed: a broken promise closes its nodes.

    They only ever become more, so that they do run empty. Any earlier it would cost far too much: behind one such gang
    the next ones pass their bounds, and so on, until all work goes in strict turn.
    """
    if last is None or last.promised_s is None:
        return replace(reservation, promised_s=reservation.start_s)
    promised_s = min(last.promised_s, reservation.start_s)
    if table.now_s < promised_s + PATIENCE_S:
        return replace(reservation, promised_s=promised_s)
    there = {room.name for room in table.rooms if room.could(reservation.needs)}
    closed = [node for node in dict.fromkeys((*last.closed, *reservation.nodes)) if node in there]
    return replace(reservation, promised_s=promised_s, closed=tuple(closed))


def _moved(room: Room, needs: Needs, at_s: float) -> list[str]:
    """Return the streams to move off a node, the largest first, until the gang has room."""
    stay = [h for h in room.holds if h.kind == "stream" or h.ends_s is None or h.ends_s > at_s]
    moved = []
    for stream in sorted((h for h in stay if h.kind == "stream"), key=lambda h: (-h.slots, h.job_id)):
        if (
            sum(h.slots for h in stay) + needs.slots <= room.slots
            and sum(h.gpu for h in stay) + needs.gpu <= room.gpu
            and sum(h.mem_bytes for h in stay) + needs.mem_bytes <= room.mem_bytes
        ):
            break
        stay.remove(stream)
        moved.append(stream.job_id)
    return moved
