"""Wait for pipes, with a bell that a signal handler or another thread may ring."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterable


class Waker:
    """A pipe to oneself."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)

    def ring(self) -> None:
        """End the wait that goes on now, or else the next one. Safe in a signal handler."""
        try:
            os.write(self._write_fd, b".")
        except BlockingIOError:
            return  # it is ringing already

    def wait(self, within_s: float, fds: Iterable[int] = ()) -> None:
        """Wait until it rings, one of ``fds`` can be read, or the time is over."""
        with selectors.DefaultSelector() as waiting:
            for fd in (self._read_fd, *fds):
                waiting.register(fd, selectors.EVENT_READ)
            waiting.select(max(0.0, within_s))
        try:
            os.read(self._read_fd, 4096)
        except BlockingIOError:
            return
