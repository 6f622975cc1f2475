"""What a member's ranks write, in two places: whole in the node's file, and the newest in the ledger, as it happens.

The ranks never wait for the broker: where it is slow or away, the oldest lines that still wait are left out of the live
copy, and a line says how many. A batch whose answer did not come is not sent again, since it may be there; so one
without lines finds out whether the broker is back, and few are lost.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from jetq.errors import BrokerError
from jetq.launch.output import Line
from jetq.log import Log

#: The first line is sent at once, later ones so often (s).
EVERY_S = 0.2
#: What is sent at once, at most: lines, and characters of all.
BATCH, BATCH_WIDTH = 500, 256 * 1024
#: Lines that wait to be sent. The live copy holds some 4000 of the whole gang.
WAITING = 2000
#: Longer lines are cut in the live copy (characters).
WIDTH = 4096
#: Between two looks at whether the broker is back (s).
AWAY_S = 0.5
#: The last lines may take so long (s).
LAST_S = 5.0

_log = Log("livelog")


class LiveLog:
    """Takes lines from any thread."""

    def __init__(self, fd: int | None, push: Callable[[Sequence[tuple[int | None, str]]], None]) -> None:
        """``fd``: leads to the node's file; ``push``: adds lines to the ledger's copy, or asks whether it is there."""
        self._fd = fd
        self._push = push
        self._writing = threading.Lock()  # lines of several threads do not mix in the file
        self._change = threading.Condition()  # around all below
        self._waiting: deque[tuple[int | None, str]] = deque()
        self._left_out = 0
        self._closing = False
        self._thread = threading.Thread(target=self._send, name="livelog", daemon=True)

    def __enter__(self) -> LiveLog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._thread.join(LAST_S)

    def add(self, line: Line, *, live: bool = True) -> None:
        """Take one line. ``live``: it goes into the ledger's copy, too."""
        if live:
            text = line.text if len(line.text) <= WIDTH else f"{line.text[: WIDTH - 1]}…"
            with self._change:
                if len(self._waiting) >= WAITING:
                    self._waiting.popleft()
                    self._left_out += 1
                self._waiting.append((line.rank, text))
                self._change.notify_all()
        if self._fd is not None:
            who = "jetq" if line.rank is None else line.rank
            with self._writing, contextlib.suppress(OSError):  # the agent is gone: this lane goes with it
                _write(self._fd, f"[{who}] {line.text}\n".encode(errors="replace"))

    def _send(self) -> None:
        away = False
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._left_out or self._closing)
                if self._closing and not (self._waiting or self._left_out):
                    return
            lines, new = ([], 0) if away else self._batch()
            try:
                self._push(lines)
                away = False
            except BrokerError as exc:
                if not away:
                    _log.warning("livelog.waits_for_broker", why=exc)
                away = True
                with self._change:
                    self._left_out += new
                    if self._closing:
                        return
            if not self._waiting or away:
                with self._change:
                    self._change.wait_for(lambda: self._closing, AWAY_S if away else EVERY_S)

    def _batch(self) -> tuple[list[tuple[int | None, str]], int]:
        """Return what is sent next, and how many lines are lost with it: its own, and those that it tells of."""
        with self._change:
            lost, self._left_out = self._left_out, 0
            note = f"{lost} lines are missing here; `jetq job logs` has them"
            lines: list[tuple[int | None, str]] = [(None, note)] if lost else []
            width = 0
            while self._waiting and len(lines) < BATCH and width < BATCH_WIDTH:
                width += len(self._waiting[0][1])
                lines.append(self._waiting.popleft())
            return lines, lost + len(lines) - bool(lost)


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
