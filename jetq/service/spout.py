"""Read what a process writes, line by line, and never hold it up for long: lines are dropped instead, and counted.

One thread reads the pipe and cuts lines, another gives them away: a disk that is full or a pipe that nobody reads then
holds up only the second. Between them lies a queue. Where that is full the writers wait a moment, since a burst is no
stall; what still finds no room is dropped.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from jetq.errors import JetqError
from jetq.launch.causes import RootCause
from jetq.launch.output import Line, Output
from jetq.log import Log

#: What may lie between the two threads (bytes), counting so much for each line besides its text.
QUEUE_BYTES, LINE_BYTES = 8 * 1024**2, 128
#: The writers wait so long for room (s), once; until half of the queue is free again they do not wait any more.
ROOM_S = 1.0
_READ_BYTES = 65536

_log = Log("ranks")


class Spout:
    """The read end of a pipe. It closes it."""

    def __init__(self, fd: int, output: Output, take: Callable[[Line], None]) -> None:
        """``take`` gets each line, in a thread of its own; if it raises OSError or JetqError, the line is lost."""
        self._fd, self._output, self._take = fd, output, take
        self._wake: int | None = os.eventfd(0)  # the reader closes it
        self._given_up = False
        self._reading = threading.Lock()  # around what the output knows
        self._room = threading.Condition()  # around all below
        self._queue: list[Line] = []
        self._bytes = 0
        self._full = False
        self._over = False  # nothing more is put into the queue
        self._nobody = False  # nothing more is taken out of it
        self.dropped = 0  # lines that found no room, or whose taker failed
        self._untold = 0  # of these, how many no line tells of yet
        self._threads = [
            threading.Thread(target=self._read, args=(self._wake,), name="ranks.read", daemon=True),
            threading.Thread(target=self._give, name="ranks.give", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def cause(self) -> RootCause | None:
        """The rank that failed first, once the launcher has named it."""
        with self._reading:
            return self._output.cause

    def tail(self, rank: int | None) -> list[str]:
        """Return the last lines of a rank, or of the launcher (None)."""
        with self._reading:
            return self._output.tail(rank)

    def close(self, within_s: float = 5.0) -> bool:
        """Read what lies in the pipe, give all away, and end. False: that took too long, and what is left is lost."""
        end_s = time.monotonic() + within_s
        with self._room:
            if self._wake is not None:
                os.eventfd_write(self._wake, 1)
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        self._given_up = True
        with self._room:
            self._over = True
            self._room.notify_all()
        return not any(thread.is_alive() for thread in self._threads)

    # The thread that reads -------------------------------------------------------------------------------------------

    def _read(self, wake: int) -> None:
        poller = select.poll()
        for fd in (self._fd, wake):
            poller.register(fd, select.POLLIN)
        try:
            while not self._given_up:
                ready = [fd for fd, _ in poller.poll()]
                data = os.read(self._fd, _READ_BYTES) if self._fd in ready else b""
                if not data:  # nobody writes any more, or it is to be closed and nothing is left
                    break
                with self._reading:
                    lines = self._output.feed(data)
                self._put(lines)
            with self._reading:
                lines = self._output.close()
            self._put(lines)
        finally:
            os.close(self._fd)
            with self._room:
                os.close(wake)
                self._wake = None
                self._over = True
                self._room.notify_all()

    def _put(self, lines: list[Line]) -> None:
        if not lines:
            return
        with self._room:
            if not self._full and self._bytes > QUEUE_BYTES:
                self._room.wait_for(lambda: self._bytes <= QUEUE_BYTES or self._nobody, ROOM_S)
            self._full = self._nobody or self._bytes > (QUEUE_BYTES // 2 if self._full else QUEUE_BYTES)
            if self._full:
                self._lose(len(lines))
                return
            if self._untold:
                lines = [Line(None, f"{self._untold} lines were dropped here: nobody took them in time"), *lines]
                self._untold = 0
            self._queue += lines
            self._bytes += sum(len(line.text) + LINE_BYTES for line in lines)
            self._room.notify_all()

    def _lose(self, lines: int) -> None:
        if not self.dropped:
            _log.warning("output.dropped")
        self.dropped += lines
        self._untold += lines

    # The thread that gives -------------------------------------------------------------------------------------------

    def _give(self) -> None:
        try:
            while lines := self._next():
                for line in lines:
                    self._hand(line)
        finally:  # also where the taker raises what it never should: the ranks go on
            with self._room:
                self._nobody = True
                self._room.notify_all()

    def _next(self) -> list[Line]:
        """Return what waits, once there is something; [] at the end."""
        with self._room:
            self._room.wait_for(lambda: self._queue or self._over)
            lines, self._queue = self._queue, []
            if not lines and self._untold:
                lines = [Line(None, f"the last {self._untold} lines were dropped: nobody took them in time")]
                self._untold = 0
            self._bytes = 0
            self._room.notify_all()
            return lines

    def _hand(self, line: Line) -> None:
        try:
            self._take(line)
        except (OSError, JetqError) as exc:
            with self._room:
                if not self.dropped:
                    _log.warning("output.not_taken", why=exc)
                self.dropped += 1
