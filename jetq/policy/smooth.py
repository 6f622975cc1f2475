"""A reading smoothed over time: an exponentially weighted mean that knows its age."""

from __future__ import annotations

import math
from dataclasses import dataclass


def sane(value: float | None) -> float | None:
    """Return ``value`` if it is a number of 0 or more, else ``None``: what a broken sensor says is unknown."""
    if value is None or not math.isfinite(value) or value < 0:
        return None
    return float(value)


@dataclass(frozen=True, slots=True)
class Smooth:
    """A smoothed reading. ``None`` until the first one arrives."""

    tau_s: float  # readings older than this weigh less than 37 %
    value: float | None = None
    at_s: float = 0.0

    def after(self, reading: float | None, at_s: float) -> Smooth:
        """Return the value after one more reading at ``at_s``; a reading that is no sane number changes nothing."""
        new = sane(reading)
        if new is None:
            return self
        if self.value is None:
            return Smooth(self.tau_s, new, at_s)
        keep = math.exp(-max(0.0, at_s - self.at_s) / self.tau_s)
        return Smooth(self.tau_s, self.value * keep + new * (1.0 - keep), max(at_s, self.at_s))
