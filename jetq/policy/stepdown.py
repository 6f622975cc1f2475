"""Fewer frames on a hot node: streams that say so go down in steps, and back up when it has cooled. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jetq.policy.smooth import sane
from jetq.policy.trim import Trips

#: A node is hot where it throttles, or its processors are so busy (0..1) …
BUSY = 0.95
#: … and has cooled below these: so many degrees C under the trip, and so busy.
COOL_BELOW_C, CALM = 5.0, 0.80
#: It stays so for so long (s) before the next step down, or up. Up is slow: what was taken away made it cool.
DOWN_S, UP_S = 10.0, 60.0
#: No stream declares more steps; a node that is hot all the same counts no further.
MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Level:
    """How far down the streams of one node have stepped. Kept by its agent."""

    steps: int = 0  # 0: all have the frames they want
    hot_since_s: float | None = None
    cool_since_s: float | None = None
    why: str = ""  # of the last step down

    def after(
        self,
        temp_c: float | None,
        cpu_busy: float | None,
        now_s: float,
        trips: Trips = Trips(),  # noqa: B008
        *,
        most: int = MOST_STEPS,
    ) -> Level:
        """Return the level after one more reading.

        Args:
            temp_c: of the hottest zone; unknown is not hot.
            cpu_busy: 0..1, smoothed over some seconds.
            most: steps of the stream that has most: beyond it nothing gets any less.
        """
        why = _why_hot(temp_c, cpu_busy, trips)
        if why:
            since_s = now_s if self.hot_since_s is None else self.hot_since_s
            if now_s - since_s >= DOWN_S and self.steps < min(most, MOST_STEPS):
                return Level(self.steps + 1, now_s, None, why)
            return Level(self.steps, since_s, None, self.why)
        if not self.steps or not _is_cool(temp_c, cpu_busy, trips):
            return Level(self.steps, None, None, self.why if self.steps else "")
        since_s = now_s if self.cool_since_s is None else self.cool_since_s
        if now_s - since_s >= UP_S:
            return Level(self.steps - 1, None, now_s, self.why if self.steps > 1 else "")
        return Level(self.steps, None, since_s, self.why)


def allowed_fps(fps: float | None, hot_fps: Sequence[float], level: Level) -> float | None:
    """Return the frames a second that a stream may analyse now; None: all that come.

    Args:
        fps: what it wants. hot_fps: what it may go down to, step by step; empty: it never does.
    """
    if not level.steps or not hot_fps:
        return fps
    return hot_fps[min(level.steps, len(hot_fps)) - 1]


def said(fps: float | None, hot_fps: Sequence[float], level: Level) -> str:
    """Return what people are told of a stream that has less than it wants, "" where it has all."""
    now = allowed_fps(fps, hot_fps, level)
    if now == fps or now is None:
        return ""
    wanted = "all frames" if fps is None else f"{fps:g}"
    step = min(level.steps, len(hot_fps))
    return f"{now:g} of {wanted} fps: its node is hot ({level.why}; step {step} of {len(hot_fps)})"


def _why_hot(temp_c: float | None, cpu_busy: float | None, trips: Trips) -> str:
    temp, busy = sane(temp_c), sane(cpu_busy)
    if temp is not None and temp >= trips.passive_c:
        return f"{temp:.0f} C"
    return f"processors {busy:.0%} busy" if busy is not None and busy >= BUSY else ""


def _is_cool(temp_c: float | None, cpu_busy: float | None, trips: Trips) -> bool:
    temp, busy = sane(temp_c), sane(cpu_busy)
    return (temp is None or temp < trips.passive_c - COOL_BELOW_C) and (busy is None or busy < CALM)
