"""Which of the nodes that fit a gang takes. Pure: same nodes in, same nodes out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jetq.policy.timetable import Room


def choose(
    fitting: Sequence[Room],
    least: int,
    most: int,
    *,
    own: Collection[str] = (),
    planned: Collection[str] = (),
    crowded: Collection[str] = (),
) -> list[Room]:
    """Return ``least`` to ``most`` nodes, as many as there are, or none if there are fewer than ``least``.

    Args:
        fitting: nodes on which each member fits.
        own: nodes that were planned for this gang; kept where nothing else speaks against it.
        planned: nodes that are planned for other gangs: taken only if the others are too few.
        crowded: nodes from which streams would have to move: taken only if the others are fewer than ``least``.
    """
    if len(fitting) < least:
        return []
    calm = [room for room in fitting if room.name not in crowded]
    if len(calm) < least:
        return [*calm, *_steady([r for r in fitting if r.name in crowded], least - len(calm), own, planned)]
    clear = [room for room in calm if room.name not in planned]
    pool = clear if len(clear) >= most else calm
    return _steady(pool, min(most, len(pool)), own, planned)


def _steady(pool: Sequence[Room], count: int, own: Collection[str], planned: Collection[str]) -> list[Room]:
    """Take the best pace that so many nodes can have together, and no faster nodes than that pace needs."""
    pace = sorted((room.pace for room in pool), reverse=True)[count - 1]
    enough = [room for room in pool if room.pace >= pace]
    enough.sort(key=lambda r: (r.pace, r.name not in own, r.name in planned, r.idle_slots, r.name))
    return enough[:count]
