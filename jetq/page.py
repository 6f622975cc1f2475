"""The shared page of a lane: until when its work may go on, and what each child or thread of it runs.

A file in memory that has no name. The agent makes it, the lane inherits it, pool children open it through the lane; so
the agent knows what runs without the lane's help, and a lane knows its deadline without the agent's.

    offset  content
    0       how many slots there are
    8       good_until: work may go on until then        (CLOCK_BOOTTIME, s; 0: no deadline yet)
    16      tick: when the lane's main loop last turned  (CLOCK_BOOTTIME, s; 0: not yet)
    24      fenced: when the lane killed itself          (CLOCK_BOOTTIME, s; 0: it has not)
    64      the slots, each of two halves

A slot has one writer. It writes the halves in turn, each with a sequence number and a checksum over all of it, so a
reader takes the newer half that is whole: one that is being written, or whose writer died at it, does not count yet.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Bytes before the first slot, and of half a slot; the texts of an entry have what its numbers leave.
_HEAD, _HALF = 64, 512
#: Checksum, then: sequence number, pid, birth of the pid, lengths of the four texts.
_SUM, _NUMBERS = struct.Struct("<I4x"), struct.Struct("<QQQ4H")
_TEXT = _SUM.size + _NUMBERS.size
#: A reader that finds no whole half has met a writer twice within a microsecond; it looks again so often.
_TRIES = 100
_COUNT, _GOOD_UNTIL, _TICK, _FENCED = range(4)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one child or thread runs, or asks to run while ``token`` is empty."""

    job_id: str
    pub: str
    claimer: str
    token: str
    pid: int
    born: int  # start of the pid (clock ticks since boot): tells it from a later process of that number


class Page:
    """A mapped page. Times may be written by one process and read by others at any moment."""

    def __init__(self, fd: int) -> None:
        """Map the page behind ``fd``, which may be closed afterwards."""
        self._map = mmap.mmap(fd, 0)
        self._times = memoryview(self._map)[:_HEAD].cast("d")
        self._words = memoryview(self._map).cast("Q")
        self.slots = int(self._words[_COUNT])

    @property
    def good_until_s(self) -> float:
        """Until when the lane's work may go on; 0: no deadline yet."""
        return self._times[_GOOD_UNTIL]

    @good_until_s.setter
    def good_until_s(self, at_s: float) -> None:
        self._times[_GOOD_UNTIL] = at_s

    @property
    def tick_s(self) -> float:
        """When the lane's main loop last turned; 0: not yet."""
        return self._times[_TICK]

    @tick_s.setter
    def tick_s(self, at_s: float) -> None:
        self._times[_TICK] = at_s

    @property
    def fenced_s(self) -> float:
        """When the lane killed itself because its time was over; 0: it has not."""
        return self._times[_FENCED]

    @fenced_s.setter
    def fenced_s(self, at_s: float) -> None:
        self._times[_FENCED] = at_s

    def living(self, born: Callable[[int], int | None]) -> list[Entry]:
        """Return what is run by processes that live. ``born``: gives the birth of a living pid."""
        births: dict[int, int | None] = {}
        entries = []
        for entry in self.entries():
            if entry.pid not in births:
                births[entry.pid] = born(entry.pid)
            if births[entry.pid] == entry.born:
                entries.append(entry)
        return entries

    def entries(self) -> Iterator[Entry]:
        """Yield what the slots hold, also those of processes that have died."""
        seqs = self._words
        for at in range(_HEAD, _HEAD + self.slots * 2 * _HALF, 2 * _HALF):
            if seqs[(at + _SUM.size) // 8] or seqs[(at + _HALF + _SUM.size) // 8]:  # else it was never written
                entry = self._newest(at)[1]
                if entry is not None:
                    yield entry

    def slot(self, index: int, *, pid: int, born: int) -> Slot:
        """Return a slot to write. It takes over from a writer that has died, whose entry stays until the first write.

        Raises:
            IndexError: there are fewer slots.
        """
        if not 0 <= index < self.slots:
            raise IndexError(f"the page has {self.slots} slots, so none of number {index}")
        at = _HEAD + index * 2 * _HALF
        return Slot(self._map, at, self._newest(at)[0], pid, born)

    def _newest(self, at: int) -> tuple[int, Entry | None]:
        """Return the sequence number and the entry (None: empty) of a slot's newer whole half."""
        for _ in range(_TRIES):
            halves = [half for half in (self._half(at), self._half(at + _HALF)) if half is not None]
            if halves:
                return max(halves, key=lambda half: half[0])
        return 0, None

    def _half(self, at: int) -> tuple[int, Entry | None] | None:
        """Return a half's sequence number and entry (None: empty); None if it is not whole."""
        raw = self._map[at : at + _HALF]
        seq, pid, born, *sizes = _NUMBERS.unpack_from(raw, _SUM.size)
        if not seq:
            return 0, None
        end = _TEXT + sum(sizes)
        if end > _HALF or _SUM.unpack_from(raw)[0] != zlib.crc32(raw[_SUM.size : end]):
            return None
        texts = []
        start = _TEXT
        for size in sizes:
            texts.append(raw[start : start + size].decode())
            start += size
        job_id, pub, claimer, token = texts
        return seq, Entry(job_id, pub, claimer, token, pid, born) if job_id else None


class Slot:
    """The slot of one child or thread. A write costs a microsecond or two: no lock, no system call."""

    def __init__(self, page: mmap.mmap, at: int, seq: int, pid: int, born: int) -> None:
        self._map, self._at, self._seq, self._pid, self._born = page, at, seq, pid, born

    def hold(self, job_id: str, pub: str, claimer: str, token: str = "") -> None:
        """Say what is run here, or is asked to be run while there is no token.

        Raises:
            ValueError: the texts are longer than 460 bytes together.
        """
        texts = [job_id.encode(), pub.encode(), claimer.encode(), token.encode()]
        self._seq += 1
        numbers = _NUMBERS.pack(self._seq, self._pid, self._born, *map(len, texts))
        body = b"".join([numbers, *texts])
        end = _SUM.size + len(body)
        if end > _HALF:
            raise ValueError(f"the id {job_id[:40]!r}… is too long for a slot of the page")
        at = self._at + self._seq % 2 * _HALF
        self._map[at : at + end] = _SUM.pack(zlib.crc32(body)) + body

    def clear(self) -> None:
        """Say that nothing is run here."""
        self.hold("", "", "")


def create(slots: int) -> tuple[Page, int]:
    """Return a new page and its fd, for a child to inherit. The caller closes the fd once that is done."""
    fd = os.memfd_create("jetq-page")
    os.ftruncate(fd, _HEAD + slots * 2 * _HALF)
    os.pwrite(fd, struct.pack("<Q", slots), 0)
    return Page(fd), fd


def open_path(path: str) -> Page:
    """Return the page behind ``/proc/PID/fd/N``: a child finds that of its lane so, however it was started."""
    fd = os.open(path, os.O_RDWR)
    try:
        return Page(fd)
    finally:
        os.close(fd)
