"""How much of its normal speed a node is worth right now: the minimum of its factors, never their product."""

from __future__ import annotations

from dataclasses import dataclass

from jetq.model.beat import Metrics
from jetq.policy.smooth import sane

#: No factor goes lower: a node in trouble is used last, not never.
FLOOR = 0.25
#: Where a board names no trip points (degrees C): a Jetson starts to throttle at about this.
PASSIVE_C = 85.0
#: Where a board names no trip points (degrees C): Orin's shutdown trip is 104.5 (NVIDIA thermal design guide).
CRITICAL_C = 104.5
#: Degrees C below the passive trip at which work starts to move away.
WARM_BELOW_C = 10.0
#: Fractions of memory available: full speed above the first, floor at the second, no new work below the third.
ROOMY, TIGHT, STARVED = 0.20, 0.08, 0.05
#: Foreign load below this is the noise of a running system.
FOREIGN_NOISE = 0.05
#: Ended jobs that a node is credited with as good: one failure after a start is no verdict.
CREDIT = 3.0
#: Largest change from one beat to the next: one odd reading must not empty a node.
STEP = 0.2


@dataclass(frozen=True, slots=True)
class Trips:
    """The thermal trip points of a board, in degrees C."""

    passive_c: float = PASSIVE_C
    critical_c: float = CRITICAL_C


def thermal(temp_c: float | None, trips: Trips = Trips()) -> float:
    """Return 1 until 10 degrees C below the passive trip, 0.5 at it, the floor at the critical one."""
    if sane(temp_c) is None or temp_c is None:
        return 1.0
    warm_c = trips.passive_c - WARM_BELOW_C
    if temp_c <= trips.passive_c:
        return _between(temp_c, warm_c, 1.0, trips.passive_c, 0.5)
    return _between(temp_c, trips.passive_c, 0.5, trips.critical_c, FLOOR)


def memory(used_bytes: float | None, total_bytes: float | None) -> float:
    """Return 1 with 20 % or more of the memory available, the floor at 8 %."""
    free = _available(used_bytes, total_bytes)
    return 1.0 if free is None else _between(free, TIGHT, FLOOR, ROOMY, 1.0)


def foreign(share: float | None) -> float:
    """Return what others leave. ``share``: smoothed busy share (0..1) beyond what the node's own jobs explain."""
    busy = sane(share)
    if busy is None or busy <= FOREIGN_NOISE:
        return 1.0
    return max(FLOOR, 1.0 - min(busy, 1.0))


def error(failed: float | None, ended: float | None) -> float:
    """Return how far a node's work can be trusted.

    Args:
        failed: jobs that failed here lately, old ones fading.
        ended: jobs that ended here lately, failed ones included.
    """
    bad, all_ = sane(failed), sane(ended)
    if not bad or all_ is None:
        return 1.0
    return max(FLOOR, 1.0 - min(1.0, bad / (max(bad, all_) + CREDIT)))


def readings(blind: bool) -> float:
    """Return the floor for a node whose readings cannot be believed: its other factors say nothing."""
    return FLOOR if blind else 1.0


def factors(
    metrics: Metrics,
    *,
    foreign_cpu: float | None = None,
    foreign_gpu: float | None = None,
    failed: float | None = None,
    ended: float | None = None,
    blind: bool = False,
    trips: Trips = Trips(),
) -> dict[str, float]:
    """Return each factor by name, 0.25..1; what is unknown counts as 1."""
    return {
        "thermal": thermal(metrics.temp_c, trips),
        "memory": memory(metrics.mem_used_bytes, metrics.mem_total_bytes),
        "cpu": foreign(foreign_cpu),
        "gpu": foreign(foreign_gpu),
        "errors": error(failed, ended),
        "readings": readings(blind),
    }


def trim(
    metrics: Metrics,
    *,
    foreign_cpu: float | None = None,
    foreign_gpu: float | None = None,
    failed: float | None = None,
    ended: float | None = None,
    blind: bool = False,
    trips: Trips = Trips(),
    before: float | None = None,
) -> float:
    """Return the smallest factor, moved at most 0.2 away from ``before`` (the last beat's trim)."""
    wanted = min(
        factors(
            metrics,
            foreign_cpu=foreign_cpu,
            foreign_gpu=foreign_gpu,
            failed=failed,
            ended=ended,
            blind=blind,
            trips=trips,
        ).values()
    )
    if before is None:
        return wanted
    return min(max(wanted, before - STEP, FLOOR), before + STEP, 1.0)


def excluded(metrics: Metrics, trips: Trips = Trips()) -> str:
    """Return why the node must get no new work ("" if it may): under 5 % memory, or at its critical trip."""
    free = _available(metrics.mem_used_bytes, metrics.mem_total_bytes)
    if free is not None and free < STARVED:
        return f"only {free:.1%} of its memory is available"
    temp_c = sane(metrics.temp_c)
    if temp_c is not None and temp_c >= trips.critical_c:
        return f"{temp_c:.0f} C is at its critical trip point ({trips.critical_c:.0f} C)"
    return ""


def _available(used_bytes: float | None, total_bytes: float | None) -> float | None:
    used, total = sane(used_bytes), sane(total_bytes)
    if used is None or not total or used > total:
        return None
    return 1.0 - used / total


def _between(x: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """Return the line through two points at ``x``, held constant outside them."""
    if x1 <= x0:
        return y1 if x >= x1 else y0
    share = min(1.0, max(0.0, (x - x0) / (x1 - x0)))
    return y0 + share * (y1 - y0)
