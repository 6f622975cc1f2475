"""The log of one run of a job: written by one, read by many, never longer than its limit, never a reason to fail."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A log is kept in pieces of half the limit; the piece before the current one stays, older ones go.
_PIECES = 2
_DROPS = "jetq: this log has reached {limit} bytes; its oldest lines are dropped from here on (JETQ_LOG_MAX_BYTES)\n"
_LOST = "jetq: {count} bytes of output were lost here: {why}\n"


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """One file of a log. Its name says what it holds, so that nothing else has to be kept."""

    attempt: int  # 1 is the first
    started_ms: int  # when this run of the job wrote first (Unix, ms, the node's clock)
    base: int  # how many bytes of the run's output lie before this piece

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.attempt}.{self.started_ms}.{self.base}.log"

    @property
    def run(self) -> str:
        """What names the run among those of its job on this node."""
        return f"{self.attempt}.{self.started_ms}"

    @classmethod
    def parse(cls, name: str) -> Piece | None:
        """Return what the name of a file says, or None if it is none of ours."""
        parts = name.split(".")
        if len(parts) != 4 or parts[3] != "log" or not all(part.isdecimal() and part.isascii() for part in parts[:3]):
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]))


def pieces(folder: Path) -> list[Piece]:
    """Return the pieces of all logs in a folder, in the order of their runs."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(piece for piece in map(Piece.parse, names) if piece is not None)


class LogFile:
    """The log of one run. It is made by the first byte."""

    def __init__(self, folder: Path, attempt: int, *, limit_bytes: int) -> None:
        """``attempt``: 1 is the first; ``limit_bytes``: the oldest output is dropped beyond it."""
        self._folder = folder
        self._attempt = attempt
        self._limit_bytes = limit_bytes
        self._most = limit_bytes // _PIECES  # bytes of one piece
        self._piece: Piece | None = None
        self._fd = -1
        self._size = 0  # of the current piece
        self._ends_line = True
        self._is_fresh = True  # nothing but our own line is in the current piece
        self._unkept = 0  # bytes lost since the last that were kept

    def write(self, data: bytes) -> OSError | None:
        """Append. What the disk does not take is lost, and so noted when it takes something again. Returns why."""
        kept = 0
        try:
            if self._unkept:
                self._note(_LOST.format(count=self._unkept, why="the disk took no more"))
                self._unkept = 0
            while kept < len(data):
                kept += self._append(self._part(data[kept : kept + self._limit_bytes]))
        except OSError as exc:
            self._unkept += len(data) - kept
            return exc
        return None

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _part(self, data: bytes) -> bytes:
        """Return what goes to the current piece: it ends with a line, unless that is longer than a piece."""
        room = self._room()
        if len(data) <= room:
            return data
        whole = data.rfind(b"\n", 0, room) + 1
        if not whole and self._ends_line and not self._is_fresh:
            room = self._begin_next()
            whole = data.rfind(b"\n", 0, room) + 1
        return data[: whole or room]

    def _append(self, data: bytes) -> int:
        count = os.write(self._fd, data)
        self._size += count
        self._ends_line = data[:count].endswith(b"\n")
        self._is_fresh = False
        return count

    def _note(self, text: str) -> None:
        self._room()
        self._append(("" if self._ends_line else "\n").encode() + text.encode())

    def _room(self) -> int:
        """Return how much the current piece takes, 1 or more; begin the next one where it is full."""
        if self._fd < 0:
            self._open(self._piece or Piece(self._attempt, int(time.time() * 1000), 0))
        if self._size >= self._most:
            return self._begin_next()
        return self._most - self._size

    def _begin_next(self) -> int:
        """Begin the next piece, with a line that says so; the one before the last goes. Returns its room."""
        before = self._piece
        assert before is not None
        self.close()
        self._open(Piece(before.attempt, before.started_ms, before.base + self._size))
        self._drop_before(before)
        self._note(_DROPS.format(limit=self._limit_bytes))
        self._is_fresh = True
        return max(1, self._most - self._size)

    def _open(self, piece: Piece) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._folder / piece.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size
        self._piece = piece

    def _drop_before(self, oldest: Piece) -> None:
        for piece in pieces(self._folder):
            if piece.run == oldest.run and piece.base < oldest.base:
                with contextlib.suppress(OSError):
                    (self._folder / piece.name).unlink()


@dataclass(frozen=True, slots=True)
class RunLog:
    """What is kept of one run's output."""

    run: str
    attempt: int
    started_at: float  # Unix seconds, the node's clock
    first: int  # offset of the first byte that is still there
    end: int  # offset past the last byte

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {name: getattr(self, name) for name in ("run", "attempt", "started_at", "first", "end")}

    @classmethod
    def parse(cls, row: dict[str, Any]) -> RunLog:
        """Return what ``as_json`` gave, maybe in another version of jetq."""
        return cls(str(row["run"]), int(row["attempt"]), float(row["started_at"]), int(row["first"]), int(row["end"]))


def run_logs(folder: Path) -> list[RunLog]:
    """Return what is kept of each run, in their order."""
    logs: dict[str, RunLog] = {}
    for piece in pieces(folder):
        try:
            end = piece.base + (folder / piece.name).stat().st_size
        except OSError:
            continue
        first = logs[piece.run].first if piece.run in logs else piece.base
        logs[piece.run] = RunLog(piece.run, piece.attempt, piece.started_ms / 1000, first, end)
    return list(logs.values())


def open_from(folder: Path, run: str, offset: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Open a run's log from an offset, or from the first byte that is left after it.

    Returns:
        The offset it starts at, and (open fd, first, past) of each piece in order. The caller closes the fds.
    """
    parts: list[tuple[int, int, int]] = []
    start = offset
    for piece in _of_run(pieces(folder), run):
        try:
            fd = os.open(folder / piece.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # dropped just now
        past = os.fstat(fd).st_size
        if piece.base + past <= offset:
            os.close(fd)
            continue
        if not parts:
            start = max(offset, piece.base)
        parts.append((fd, max(0, offset - piece.base), past))
    return start, parts


def _of_run(found: Iterable[Piece], run: str) -> Iterable[Piece]:
    return (piece for piece in found if piece.run == run)
