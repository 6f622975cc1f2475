"""What a member's ranks write, in two places: whole in the node's file, and the newest in the ledger, as it happens."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from jetq.errors import BrokerError
from jetq.launch.output import Line

#: Lines are sent after this time (s), or when there are so many.
EVERY_S, BATCH = 0.1, 200
#: Lines that wait to be sent; more are left out of the live copy, and counted.
WAITING = 5000


class LiveLog:
    """Takes lines from any thread. The ranks never wait for the broker."""

    def __init__(self, fd: int | None, push: Callable[[Sequence[tuple[int | None, str]]], None]) -> None:
        """``fd``: leads to the node's file; ``push``: adds lines to the ledger's copy."""
        self._fd = fd
        self._push = push
        self._queue: queue.Queue[tuple[int | None, str]] = queue.Queue(WAITING)
        self._dropped = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._send, name="livelog", daemon=True)

    def __enter__(self) -> LiveLog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(5.0)

    def add(self, line: Line, *, live: bool = True) -> None:
        """Take one line. ``live``: it goes into the ledger's copy, too."""
        if self._fd is not None:
            who = "jetq" if line.rank is None else str(line.rank)
            with contextlib.suppress(OSError):
                os.write(self._fd, f"[{who}] {line.text}\n".encode())
        if not live:
            return
        try:
            self._queue.put_nowait((line.rank, line.text))
        except queue.Full:
            self._dropped += 1

    def _send(self) -> None:
        while not (self._closing.wait(EVERY_S) and self._queue.empty()):
            lines = self._taken()
            if not lines:
                continue
            try:
                self._push(lines)
            except BrokerError:
                self._dropped += len(lines)
                if self._closing.is_set():
                    return

    def _taken(self) -> list[tuple[int | None, str]]:
        lines: list[tuple[int | None, str]] = []
        if self._dropped:
            lines.append((None, f"{self._dropped} lines are missing here; `jetq job logs` has them"))
            self._dropped = 0
        while len(lines) < BATCH:
            try:
                lines.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return lines
