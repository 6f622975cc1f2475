"""The files of one kind that a stream leaves: in order by name, within a budget, and never the last of a disk."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

#: What is left of a disk to others: the smaller of so many bytes and this share of it.
FLOOR_BYTES, FLOOR_SHARE = 256 * 1024**2, 0.05
#: Over the floor there has to be so much (bytes) before a new file is begun: none is begun for a moment.
BEGIN_BYTES = 1024**2
#: Free bytes are asked for once in this time (s), and so is a folder that could not be written.
LOOK_S = 0.5
#: The disk, or what a user may have of it, is full.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: A file takes this share of the budget, then the next one begins.
PIECES = 8
#: More files of a kind are a burden to whoever lists them.
MOST_FILES = 2000
#: ``KIND-NUMBER-TIME.ENDING``. The number says the order: the clock of a board may be set back.
_NAME = re.compile(r"(results|film)-(\d{8,})-\d{8}T\d{6}Z\.(jsonl|mp4)")


@dataclass(frozen=True, slots=True, order=True)
class Numbered:
    """One file of a stream."""

    number: int
    path: Path
    size_bytes: int
    changed_at: float


class Shelf:
    """The files of one kind in a stream's folder, which other kinds share."""

    def __init__(
        self, folder: Path, kind: str, ending: str, *, most_bytes: int, floor_bytes: int | None = None
    ) -> None:
        """Touch nothing yet.

        Args:
            folder: it is made with the first file.
            most_bytes: of all files of this kind; the oldest go beyond it.
            floor_bytes: what has to stay free on the disk; None: by ``FLOOR_BYTES`` and ``FLOOR_SHARE``.
        """
        self.folder = folder
        self._kind, self._ending = kind, ending
        self._most_bytes, self._floor_bytes = most_bytes, floor_bytes
        self.piece_bytes = most_bytes // PIECES  # of one file
        self._looked_s = -LOOK_S
        self._lack = ""

    def files(self) -> list[Numbered]:
        """Return the files of this kind, the oldest first."""
        return [file for kind, file in _files(self.folder) if kind == self._kind]

    def begin(self, at_s: float) -> tuple[Path, int]:
        """Make the next file, open to be written to, and remove the oldest beyond the budget.

        Args:
            at_s: when its first result was seen (Unix).

        Raises:
            OSError: it cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        there = self.files()
        number = there[-1].number if there else 0
        stamp = datetime.fromtimestamp(at_s, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        while True:
            number += 1
            path = self.folder / f"{self._kind}-{number:08d}-{stamp}.{self._ending}"
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:  # somebody else's
                continue
            except OSError as exc:
                if exc.errno not in FULL or not self.drop_oldest():
                    raise
        self._trim(there)
        return path, fd

    def lack(self, *, beginning: bool) -> str:
        """Say why nothing may be written now, "": it may. Makes room by removing the oldest files of the stream.

        ``beginning``: a file would be begun, so there has to be a little more.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._lack = self._make_room(BEGIN_BYTES if beginning else 0)
        return self._lack

    def drop_oldest(self) -> bool:
        """Remove the oldest file of the stream, of whichever kind. False: there is none that may go."""
        for file in _spare(self.folder):
            with contextlib.suppress(OSError):
                file.path.unlink()
                return True
        return False

    def _make_room(self, more_bytes: int) -> str:
        try:
            while True:
                free, floor = self._free()
                if free >= floor + more_bytes:
                    return ""
                if not self.drop_oldest():
                    break
        except OSError as exc:
            return f"the disk cannot be used ({exc.strerror})"
        return f"the disk is full: {free / 1e6:.0f} MB are free, and {floor / 1e6:.0f} MB of it stay so"

    def _free(self) -> tuple[int, int]:
        """Return how much is free on the disk, and how much has to stay so (bytes)."""
        place = self.folder
        while not place.exists() and place != place.parent:
            place = place.parent
        found = os.statvfs(place)
        floor = min(FLOOR_BYTES, int(found.f_blocks * found.f_frsize * FLOOR_SHARE))
        return found.f_bavail * found.f_frsize, floor if self._floor_bytes is None else self._floor_bytes

    def _trim(self, closed: list[Numbered]) -> None:
        size, count = sum(file.size_bytes for file in closed) + self.piece_bytes, len(closed) + 1
        for file in closed:
            if size <= self._most_bytes and count <= MOST_FILES:
                break
            with contextlib.suppress(OSError):
                file.path.unlink()
            size, count = size - file.size_bytes, count - 1


def _files(folder: Path) -> list[tuple[str, Numbered]]:
    """Return all that sinks have left in a folder, in order, each with its kind."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            with contextlib.suppress(OSError):
                if match and entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    found.append((match[1], Numbered(int(match[2]), Path(entry.path), stat.st_size, stat.st_mtime)))
    return sorted(found)


def _spare(folder: Path) -> list[Numbered]:
    """Return the files that may go, the oldest first: all but the last of each kind, which may be in the making."""
    found = _files(folder)
    last = dict(found)
    return sorted((file for kind, file in found if last[kind] is not file), key=lambda file: file.changed_at)
