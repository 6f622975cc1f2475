"""Whether a gang can ever start on the nodes that exist, and what is missing if not. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jetq.errors import NeverFits
from jetq.model.needs import Needs
from jetq.policy.timetable import Room
from jetq.policy.turns import QueuedGang

#: A message names so many nodes or streams, and counts the others.
_NAMED = 4
_GIB = 1024**3


def never_fits(gang: QueuedGang, rooms: Sequence[Room]) -> NeverFits | None:
    """Return what to say of a gang that asks for more than exists minus running streams; None: it is fine.

    Nodes that are there but take nothing now count: a drain or a rest ends. Who may move streams counts without them,
    but for those whose cameras hang on their nodes.
    """
    enough = [room for room in rooms if room.could(gang.needs)]
    asked = f"the gang needs {_nodes(gang.least)} with {said(gang.needs)} each"
    if len(enough) < gang.least:
        have = f"only {named([r.name for r in enough])} {_has(len(enough))} that" if enough else "no node has that"
        return NeverFits(f"{asked}, and {have}; ask for less (--nodes, --ranks), or add nodes")
    stay = ("camera",) if gang.over_streams else ("stream", "camera")
    crowded = [room for room in enough if not _beside(room, gang.needs, stay)]
    if len(enough) - len(crowded) >= gang.least:
        return None
    streams = tuple(f"{hold.job_id} on {room.name}" for room in crowded for hold in room.holds if hold.kind in stay)
    what, ways = ("running streams", "cancel some, or move them with --over-streams")
    if gang.over_streams:
        what, ways = ("cameras that hang on nodes", "cancel some")
    return NeverFits(
        f"{asked}, and beside the {what} only {len(enough) - len(crowded)} of {len(enough)} have that: "
        f"{named(streams)}; {ways}",
        streams=streams,
    )


def missing(gang: QueuedGang, rooms: Sequence[Room]) -> str:
    """Return why no reservation can be made for a gang now, though it was taken at submit."""
    error = never_fits(gang, rooms)
    if error is not None:
        return str(error)
    away = [f"{room.name} {room.why_not}" for room in rooms if room.why_not and room.could(gang.needs)]
    return f"needs {_nodes(gang.least)} with {said(gang.needs)} each; {named(away) or 'other gangs hold them'}"


def said(needs: Needs) -> str:
    """Return needs in words: ``2 slots, a GPU, 4 GiB and zone=yard``."""
    parts = [f"{needs.slots:g} slot{'' if needs.slots == 1 else 's'}"]
    if needs.gpu:
        parts.append("a GPU")
    if needs.mem_bytes:
        parts.append(f"{needs.mem_bytes / _GIB:.3g} GiB")
    parts += needs.labels
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def named(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _beside(room: Room, needs: Needs, kinds: Sequence[str]) -> bool:
    """Whether a node has enough beside the holds of these kinds."""
    streams = [hold for hold in room.holds if hold.kind in kinds]
    return (
        sum(hold.slots for hold in streams) + needs.slots <= room.slots
        and sum(hold.gpu for hold in streams) + needs.gpu <= room.gpu
        and sum(hold.mem_bytes for hold in streams) + needs.mem_bytes <= room.mem_bytes
    )


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"
