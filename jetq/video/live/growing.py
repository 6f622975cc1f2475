"""A file that grows by whole parts: what a disk did not take whole, or a kill cut off, is taken back."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from jetq.video.live.shelf import FULL, Shelf

_READ_BYTES = 64 * 1024


class Growing:
    """An open file of a stream. No other process writes to it as long as it is open."""

    def __init__(self, path: Path, fd: int) -> None:
        """Take over an open file.

        Raises:
            BlockingIOError: another process writes to it.
        """
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = path
        self.size_bytes = os.fstat(fd).st_size
        self._fd = fd

    def add(self, part: bytes) -> None:
        """Append a part.

        Raises:
            OSError: the disk did not take all of it; the file is as it was before.
        """
        left = memoryview(part)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size_bytes)
            raise
        self.size_bytes += len(part)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


def add_with_room(file: Growing, part: bytes, shelf: Shelf) -> None:
    """Append a part; while the disk is full, the oldest files of the stream make room for it.

    Raises:
        OSError: the disk did not take it; the file is as it was before.
    """
    while True:
        try:
            return file.add(part)
        except OSError as exc:
            if exc.errno not in FULL or not shelf.drop_oldest():
                raise


def reopen(path: Path, whole: Callable[[int, int], int]) -> Growing | None:
    """Open a file that an earlier runner has left, without what was cut off at its end; None: it is no use.

    Args:
        path: of the file.
        whole: gives from its fd and size how much of it is whole (bytes).
    """
    fd = -1
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        file = Growing(path, fd)
        kept = whole(fd, file.size_bytes)
        if kept < file.size_bytes:
            os.ftruncate(fd, kept)
            file.size_bytes = kept
        return file
    except OSError:
        if fd >= 0:
            os.close(fd)
        return None


def whole_lines(fd: int, size: int) -> int:
    """Return how many bytes of a file are whole lines."""
    end = size
    while end > 0:
        start = max(0, end - _READ_BYTES)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def whole_fragments(fd: int, size: int) -> int:
    """Return how many bytes of an MP4 are its head and whole fragments (moof, mdat), 0: it has no fragment."""
    at = kept = 0
    while at + 8 <= size:
        head = os.pread(fd, 8, at)
        length = int.from_bytes(head[:4], "big")
        at += length
        if length < 8 or at > size:
            break
        if head[4:] == b"mdat":
            kept = at
    return kept
