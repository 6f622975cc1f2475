"""Whether a node's readings can be believed. What is blind to itself still works, so it is used last, not never."""

from __future__ import annotations

from dataclasses import replace

from jetq.model.beat import Metrics
from jetq.policy.smooth import sane

#: A node may be without a reading for so long, while it starts or a driver is loaded anew (s).
MISSING_S = 5.0
#: Each reading of a machine that lives differs from the last; where none has for so long, they are frozen (s).
FROZEN_S = 10.0


class Senses:
    """One node's readings over time. Same calls in, same answers out; times are any clock that only goes forward."""

    def __init__(self) -> None:
        self._last: Metrics | None = None
        self._sane_at_s = 0.0
        self._changed_at_s = 0.0

    def why_blind(self, metrics: Metrics, at_s: float) -> str:
        """Take one reading and return why the node cannot be judged by it, "" if it can."""
        own = replace(metrics, rtt_s=None)  # measured by jetq itself
        if self._last is None:
            self._sane_at_s = self._changed_at_s = at_s
        if repr(own) != repr(self._last):  # NaN equals itself here
            self._changed_at_s = at_s
        self._last = own
        missing = _missing(own)
        if not missing:
            self._sane_at_s = at_s
        elif at_s - self._sane_at_s >= MISSING_S:
            return f"nothing sane is known of its {missing}"
        if at_s - self._changed_at_s >= FROZEN_S:
            return f"its readings have not changed for {at_s - self._changed_at_s:.0f} s"
        return ""


def _missing(metrics: Metrics) -> str:
    cpu, used, total = sane(metrics.cpu_busy), sane(metrics.mem_used_bytes), sane(metrics.mem_total_bytes)
    if cpu is None or cpu > 1.0:
        return "processors"
    return "memory" if used is None or not total or used > total else ""
