"""How often frames are looked at, and what became of all others."""

from __future__ import annotations

import threading
import time
from collections import deque

from jetq.video.capture.base import Grabbed

#: Rates are means over so long (s).
WINDOW_S = 5.0
#: Latencies that quantiles are taken of.
LATENCIES = 512


class Pace:
    """When the next frame is due. One thread asks and tells; another may ask, and change the rate."""

    def __init__(self, fps: float | None) -> None:
        self._fps = fps
        self._next_s = 0.0

    @property
    def fps(self) -> float | None:
        """Frames a second that are looked at, at most; None: all that come."""
        return self._fps

    @fps.setter
    def fps(self, fps: float | None) -> None:
        if fps != self._fps:
            self._fps, self._next_s = fps, 0.0  # at once: a slow pace would have it wait for long

    def is_due(self, at_s: float) -> bool:
        """Whether a frame of that time is to be looked at."""
        return self._fps is None or at_s >= self._next_s

    def looked(self, at_s: float) -> None:
        """A frame of that time was: the next one is due a period later, counted from when this one was due."""
        fps = self._fps
        if fps is not None:
            period_s = 1.0 / fps
            # Frames come a little early or late: the mean is kept. After a longer gap nothing is caught up with, but
            # the next frame may be as early as that one was late.
            late = at_s - self._next_s >= period_s
            self._next_s = at_s + period_s / 2 if late else self._next_s + period_s


class Newest:
    """Holds the newest frame only: who looks is never behind."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._frame: Grabbed | None = None
        self._ended = False
        self.dropped = 0  # frames that were due, and that nobody looked at: who looks is too slow

    def put(self, frame: Grabbed) -> None:
        """Give a frame that is due; one that is there goes. One without a picture was not wanted: one is there."""
        with self._change:
            if self._frame is not None or frame.picture is None:
                self.dropped += 1
            if frame.picture is not None:
                self._frame = frame
                self._change.notify()

    def end(self) -> None:
        """No frame follows."""
        with self._change:
            self._ended = True
            self._change.notify()

    def take(self, within_s: float) -> Grabbed | None:
        """Return the newest frame, once there is one; None: there was none in time, or none follows."""
        with self._change:
            if self._frame is None and not self._ended:
                self._change.wait(within_s)
            frame, self._frame = self._frame, None
            return frame

    @property
    def is_empty(self) -> bool:
        """Whether somebody waits for a frame, or soon will."""
        return self._frame is None

    @property
    def ended(self) -> bool:
        """Whether none follows."""
        return self._ended


class Rate:
    """How many a second, over the last seconds. Called by one thread at a time."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._times: deque[float] = deque()

    def add(self, at_s: float) -> None:
        """One more."""
        self._times.append(at_s)
        while self._times and self._times[0] < at_s - WINDOW_S:
            self._times.popleft()

    def value(self, now_s: float) -> float:
        """Return the rate."""
        recent = sum(1 for at_s in list(self._times) if at_s >= now_s - WINDOW_S)
        return recent / max(1.0, min(WINDOW_S, now_s - self._began_s))


class Latency:
    """From a frame's arrival to its result."""

    def __init__(self) -> None:
        self._taken_s: deque[float] = deque(maxlen=LATENCIES)

    def add(self, taken_s: float) -> None:
        """One more."""
        self._taken_s.append(taken_s)

    def quantile(self, share: float) -> float | None:
        """Return a quantile (s); None: nothing was looked at yet."""
        ordered = sorted(self._taken_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
