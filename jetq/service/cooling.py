"""How far the streams of one node have stepped down because it is hot: one level for all of a lane."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from jetq.clock import Clock
from jetq.log import Log
from jetq.policy.smooth import Smooth
from jetq.policy.stepdown import Level

#: Readings come with each answer to a seat; one a second counts (s). Busy processors are smoothed over some seconds.
EVERY_S, SMOOTH_S = 1.0, 5.0
#: After so long without a reading (s) nothing of before is true any more: no stream ran here.
STALE_S = 30.0

_log = Log("cooling")


class Cooling:
    """The level that streams follow. Threads may call it at the same time."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._busy = Smooth(SMOOTH_S)
        self._read_s = float("-inf")
        self.level = Level()

    def heard(self, metrics: Mapping[str, Any]) -> None:
        """Take what the node's last beat said of it."""
        now_s = self._clock()
        with self._lock:
            if now_s - self._read_s < EVERY_S:
                return
            if now_s - self._read_s > STALE_S:
                self._busy, self.level = Smooth(SMOOTH_S), Level()
            self._read_s = now_s
            self._busy = self._busy.after(metrics.get("cpu_busy"), now_s)
            before, self.level = self.level, self.level.after(metrics.get("temp_c"), self._busy.value, now_s)
        if self.level.steps != before.steps:
            tell = _log.warning if self.level.steps > before.steps else _log.info
            tell("streams.step", steps=self.level.steps, why=self.level.why or "the node has cooled")
