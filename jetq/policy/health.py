"""What an agent remembers between beats to tell foreign load and failing work from its own: feeds ``trim``."""

from __future__ import annotations

import math

from jetq.model.beat import Metrics
from jetq.policy import trim as trims
from jetq.policy.smooth import Smooth, sane

#: Foreign load is judged over this long (s): a compiler run counts, a cron job does not.
FOREIGN_TAU_S = 15.0
#: A failure is forgotten at this pace (s): the node is probed again within a minute.
ERROR_TAU_S = 20.0


class Health:
    """One node's recent past. Same calls in, same numbers out; times are any clock that only goes forward."""

    def __init__(self, trips: trims.Trips | None = None) -> None:
        self.trips = trips or trims.Trips()
        self.value = 1.0
        self._fresh = True
        self._blind = False
        self._cpu = Smooth(FOREIGN_TAU_S)
        self._gpu = Smooth(FOREIGN_TAU_S)
        self._failed = 0.0
        self._ended = 0.0
        self._totals = (0, 0)
        self._counted_at_s = 0.0

    def ended(self, at_s: float, *, ended: int, failed: int) -> None:
        """Take the totals of jobs that ended and that failed here, as the ledger counts them in this epoch."""
        self._fade(at_s)
        self._ended += max(0, ended - self._totals[0])
        self._failed += max(0, failed - self._totals[1])
        self._totals = (ended, failed)

    def observe(
        self,
        metrics: Metrics,
        at_s: float,
        *,
        own_cpu: float | None = None,
        own_gpu: float | None = None,
        blind: bool = False,
    ) -> float:
        """Take one reading and return the trim, 0.25..1.

        Args:
            metrics: this beat's reading; whatever is unknown, NaN or negative is ignored.
            at_s: when it was taken.
            own_cpu: share (0..1 of the machine) that jetq's own jobs used; unknown: none of the load is called foreign.
            own_gpu: the same for the GPU.
            blind: the readings cannot be believed (policy/senses.py).
        """
        self._fade(at_s)
        self._cpu = self._cpu.after(_beyond(metrics.cpu_busy, own_cpu), at_s)
        self._gpu = self._gpu.after(_beyond(metrics.gpu_busy, own_gpu), at_s)
        self._blind = blind
        before = None if self._fresh else self.value
        self.value = trims.trim(metrics, before=before, blind=blind, trips=self.trips, **self._inputs())
        self._fresh = False
        return self.value

    def factors(self, metrics: Metrics) -> dict[str, float]:
        """Return each factor by name, for people who ask why."""
        return trims.factors(metrics, blind=self._blind, trips=self.trips, **self._inputs())

    def excluded(self, metrics: Metrics) -> str:
        """Return why the node must get no new work, "" if it may."""
        return trims.excluded(metrics, self.trips)

    def _inputs(self) -> dict[str, float | None]:
        return {
            "foreign_cpu": self._cpu.value,
            "foreign_gpu": self._gpu.value,
            "failed": self._failed,
            "ended": self._ended,
        }

    def _fade(self, at_s: float) -> None:
        keep = math.exp(-max(0.0, at_s - self._counted_at_s) / ERROR_TAU_S)
        self._failed *= keep
        self._ended *= keep
        self._counted_at_s = max(at_s, self._counted_at_s)


def _beyond(busy: float | None, own: float | None) -> float | None:
    """Return the busy share that own work does not explain; ``None`` where that cannot be told."""
    all_, mine = sane(busy), sane(own)
    if all_ is None or all_ > 1.0 or mine is None:
        return None
    return max(0.0, all_ - mine)
