"""Follow a gang from the ledger alone: where it is, and what its ranks write, as it happens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jetq.errors import BrokerDown, NoSuchJob
from jetq.model.job import JobRow
from jetq.model.limits import BROKER_PATIENCE_S
from jetq.model.members import GangLine
from jetq.store.base import Reader

#: The wait between two looks grows from the first to the second while nothing changes (s).
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 0.25
#: Between two times that missed lines are told (s).
MISSED_EVERY_S = 5.0
#: Lines of one look.
LIMIT = 500


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a gang found."""

    row: JobRow
    lines: Sequence[GangLine] = ()
    missed: int = 0  # lines that the ledger no longer had, since this was last told
    place: str = ""  # whoever goes on from here misses nothing
    away: bool = False  # the broker does not answer; the row is an old one


class Missed:
    """Counts lines that were missed, and tells of them now and then: a flood of words would be no better."""

    def __init__(self) -> None:
        self._count = 0
        self._told_s = float("-inf")

    def told(self, more: int, *, at_end: bool) -> int:
        """Take some more, and return how many to tell of now."""
        self._count += more
        now_s = time.monotonic()
        if not self._count or (now_s - self._told_s < MISSED_EVERY_S and not at_end):
            return 0
        count, self._count, self._told_s = self._count, 0, now_s
        return count


def follow(ledger: Reader, job_id: str, *, after: str = "") -> Iterator[Look]:
    """Look again and again until a gang has ended and all of its lines are read.

    Raises:
        NoSuchJob: the ledger does not know it.
        BrokerDown: for 30 s.
    """
    row: JobRow | None = None
    missed = Missed()
    seen_s, look_s = time.monotonic(), FIRST_LOOK_S
    while True:
        try:
            found = ledger.job(job_id)  # before the lines: what it wrote last is there once it has ended
            before, (after, lines) = after, ledger.gang_lines(job_id, after, LIMIT)
        except BrokerDown:
            if row is None or time.monotonic() - seen_s > BROKER_PATIENCE_S:
                raise
            yield Look(row, place=after, away=True)
            time.sleep(LAST_LOOK_S)
            continue
        if found is None:
            raise NoSuchJob(job_id)
        seen_s, changed = time.monotonic(), bool(lines) or found != row
        row = found
        yield Look(row, lines, missed.told(_number(after) - _number(before) - len(lines), at_end=row.ended), after)
        if row.ended and not lines:
            return
        look_s = FIRST_LOOK_S if changed else min(look_s * 1.4, LAST_LOOK_S)
        if len(lines) < LIMIT:
            time.sleep(look_s)


def once(ledger: Reader, job_id: str) -> Iterator[Look]:
    """Look at all lines that are there now.

    Raises:
        NoSuchJob: the ledger does not know the gang.
    """
    after, row = "", ledger.job(job_id)
    if row is None:
        raise NoSuchJob(job_id)
    while True:
        before, (after, lines) = after, ledger.gang_lines(job_id, after, LIMIT)
        if not lines:
            return
        yield Look(row, lines, _number(after) - _number(before) - len(lines), after)


def as_object(line: GangLine) -> dict[str, object]:
    """Return a line as it is printed with ``--json``."""
    return {"rank": line.rank, "node": line.node, "at": line.at_s, "line": line.text}


def labelled(line: GangLine) -> str:
    """Return a line with the rank that wrote it before it, as the nodes' files have it."""
    return f"[{'jetq' if line.rank is None else line.rank}] {line.text}"


def _number(place: str) -> int:
    """Return the number of the line that a place is behind."""
    return int(place.partition("-")[0] or 0)
