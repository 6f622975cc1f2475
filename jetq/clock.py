"""The clocks jetq reads: boot time for its own intervals, wall time only to show."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only go forward."""

    def __call__(self) -> float:
        """Return seconds since an arbitrary start."""
        ...


def boot_s() -> float:
    """Return seconds since boot, counting suspend: a board that slept knows that it did."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ManualClock:
    """A clock that tests move by hand."""

    def __init__(self, start_s: float = 0.0) -> None:
        self.now_s = start_s

    def __call__(self) -> float:
        """Return the time set so far, in seconds."""
        return self.now_s

    def advance(self, by_s: float) -> None:
        """Move forward by ``by_s`` seconds."""
        self.now_s += by_s
