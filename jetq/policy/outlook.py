"""When a waiting gang is expected to start, and why not yet: one line for ``jetq job show``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jetq.policy.backfill import Decision
from jetq.policy.fits import missing, named
from jetq.policy.timetable import Reservation, Room, Timetable
from jetq.policy.turns import QueuedGang, in_turn

#: So many gangs from the head of the queue get an expected start; further ones are guesses upon guesses.
FORESEEN = 20


@dataclass(frozen=True, slots=True)
class Outlook:
    """What can be said of a gang that waits."""

    expected_s: float | None  # on the clock of ``now_s``; None: nobody can say
    place: int | None  # 1 is looked at first; None: it pauses between two attempts
    why: str


def outlooks(
    decision: Decision, queue: Iterable[QueuedGang], rooms: Sequence[Room], now_s: float
) -> dict[str, Outlook]:
    """Return the outlook of every gang that did not start, by its id. The arguments are those of the decision."""
    gangs = {gang.id: gang for gang in queue}
    table = Timetable(rooms, now_s)
    for start in decision.starts:
        table.start(start.nodes, gangs[start.gang_id].demand)
    for reservation in decision.reservations:
        table.reserve(reservation)
    booked = {reservation.gang_id: reservation for reservation in decision.reservations}
    started = {start.gang_id for start in decision.starts}
    waiting = [gang for gang in in_turn(gangs.values(), now_s) if gang.id not in started]
    found = {}
    for place, gang in enumerate(waiting, start=1):
        if gang.id in booked:
            found[gang.id] = Outlook(booked[gang.id].start_s, place, _of_head(gang, booked[gang.id], rooms, now_s))
        else:
            found[gang.id] = _of_other(gang, place, waiting, booked, table)
    for gang in gangs.values():
        if gang.not_before_s > now_s:
            why = f"pauses {about(gang.not_before_s - now_s)} before its next attempt"
            found[gang.id] = Outlook(gang.not_before_s, None, why)
    return found


def about(seconds: float) -> str:
    """Return a time as people say it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _of_head(gang: QueuedGang, booked: Reservation, rooms: Sequence[Room], now_s: float) -> str:
    mine = [room for room in rooms if room.name in booked.nodes]
    resting = [room for room in mine if room.rests_until_s > now_s]
    holders = {
        hold.job_id: room.name
        for room in mine
        for hold in room.holds
        if room.idle_slots < booked.needs.slots and hold.ends_s is not None and hold.ends_s <= booked.start_s
    }
    why = f"{named(sorted(booked.nodes))} {'is' if len(booked.nodes) == 1 else 'are'} kept for it"
    if holders:
        why += f" until {named([f'{job} on {node}' for job, node in holders.items()])} ended"
    if resting:
        why += f"; {named([room.name for room in resting])} refused and rests"
    if booked.moves:
        why += f"; moves for it: {named(booked.moves)}"
    if booked.closed:
        why += f"; nothing else starts on {named(sorted(booked.closed))} before it, since it has waited too long"
    return f"{why}; expected in {about(booked.start_s - now_s)}"


def _of_other(
    gang: QueuedGang,
    place: int,
    waiting: Sequence[QueuedGang],
    booked: dict[str, Reservation],
    table: Timetable,
) -> Outlook:
    names = {other.id: other.name for other in waiting if other.id in booked}
    heads = [f"{names[head]} ({head})" for head in booked]
    why = f"{place - 1} ahead of it; it must not delay {named(heads)}" if heads else f"{place - 1} ahead of it"
    if place > FORESEEN:
        return Outlook(None, place, why)
    opening = table.opening(gang.demand, gang.least)
    if opening is None:
        return Outlook(None, place, missing(gang, table.rooms))
    start_s, fitting = opening
    nodes = tuple(room.name for room in fitting[: gang.least])
    table.reserve(Reservation(gang.id, nodes, gang.needs, start_s, start_s + gang.predicted_s))
    return Outlook(start_s, place, f"{why}; expected in {about(start_s - table.now_s)}")
