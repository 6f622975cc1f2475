"""What is known of a stream on this node: its camera as it was opened, what its runner said last, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jetq.policy.streamcost import Load, Meter, Reading, expected
from jetq.policy.streamstates import Life
from jetq.policy.streamtold import told

#: What a report tells of once, and not of how the stream is.
_EVENTS = frozenset({"results", "trace", "good", "raises"})


class Account:
    """Of one runner after the other."""

    def __init__(self, speed: float, now_s: float) -> None:
        """``speed``: of this machine's cores (``policy.boards``)."""
        self._speed = speed
        self._frame_s: float | None = None  # when the last frame of any runner came
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Another runner starts: nothing of the one before is true any more."""
        self._opened: Mapping[str, Any] = {}
        self._said: Mapping[str, Any] = {}
        self._meter = Meter(now_s)

    def open(self, camera: Mapping[str, Any]) -> str:
        """Take what an open camera says of itself. Returns it for people."""
        self._opened = dict(camera)
        codec = f", {camera['codec']}" if camera["codec"] else ""
        return f"{camera['width']}x{camera['height']}{codec}, by {camera['backend']}"

    def add(self, report: Mapping[str, Any], now_s: float) -> None:
        """Take a report of the runner."""
        self._said = {name: value for name, value in report.items() if name not in _EVENTS}
        if report["frame_age_s"] is not None:
            self._frame_s = now_s - report["frame_age_s"]
        o = self._opened
        if report["cpu_s"] is not None and o:
            pixels_s = o["width"] * o["height"] * report["fps_in"]
            reading = Reading(report["cpu_s"], pixels_s, o["codec"], o["hardware"])
            self._meter = self._meter.after(reading, self._speed, now_s)

    def load(self, fps: float | None) -> Load | None:
        """Return what the stream takes: measured, before that as its open camera lets expect; None: it is not open."""
        o = self._opened
        if self._meter.load is not None or not o:
            return self._meter.load
        return expected(fps, int(o["width"] * o["height"]), o["fps"], o["codec"])

    def reading(self, life: Life, now_s: float, *, runs: bool) -> dict[str, Any]:
        """Return how the stream is. ``runs``: there is a runner now."""
        return told(life, now_s, said=self._said, opened=self._opened, frame_s=self._frame_s, runs=runs)
