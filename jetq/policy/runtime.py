"""How long a job will run, told by the last runs of its name. It plans; what kills a job is its time limit. Pure.

The mean of the last two runtimes predicts better than what people ask for, and better than longer histories (Tsafrir,
Etsion, Feitelson: Backfilling Using System-Generated Predictions, IEEE TPDS 18(6), 2007), as long as it is corrected
when a job runs longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from jetq.policy.smooth import sane

#: So many of the newest runs of a gang's name count.
LAST = 2
#: A gang of an unknown name and without a time limit is taken to run so long (s).
GANG_S = 600.0
#: A task of an unknown name and without a time limit is taken to run so long (s).
TASK_S = 60.0
#: A job that runs longer than predicted is taken to run so many times as long.
GROWTH = 1.5
#: Nothing is predicted to be shorter (s): a start alone takes that long.
SHORTEST_S = 0.001
#: A job that its time limit is about to kill is gone after this time (s).
KILL_S = 10.0


def of_gang(runs: Sequence[float], *, limit_s: float | None = None) -> float:
    """Return how long a gang will run (s).

    Args:
        runs: how long gangs of this name ran until they ended well (s), newest first.
        limit_s: its time limit, if it has one; half of it where no run is known.
    """
    known = _sane(runs)[:LAST]
    return _within(mean(known) if known else _unknown(GANG_S, limit_s), limit_s)


def of_task(runs: Sequence[float], *, limit_s: float | None = None) -> float:
    """Return how long a task will run (s): the median of the runs that are kept of its name, on its node's board."""
    known = _sane(runs)
    return _within(median(known) if known else _unknown(TASK_S, limit_s), limit_s)


def end_s(started_s: float, predicted_s: float, now_s: float, *, limit_s: float | None = None) -> float:
    """Return when a job that still runs will end, always later than ``now_s``.

    A prediction that was exceeded grows in steps, not at each look, so that what is planned on it stays where it is.
    """
    lasts_s = max(predicted_s, SHORTEST_S)
    elapsed_s = now_s - started_s
    while lasts_s <= elapsed_s:
        lasts_s *= GROWTH
    if limit_s is not None and lasts_s > limit_s:
        lasts_s = limit_s if limit_s > elapsed_s else elapsed_s + KILL_S
    end = started_s + lasts_s
    return end if end > now_s else now_s + SHORTEST_S


def _sane(runs: Sequence[float]) -> list[float]:
    return [run for run in runs if sane(run) is not None]


def _unknown(default_s: float, limit_s: float | None) -> float:
    return default_s if limit_s is None else limit_s / 2


def _within(predicted_s: float, limit_s: float | None) -> float:
    longest_s = predicted_s if limit_s is None else min(predicted_s, limit_s)
    return max(longest_s, SHORTEST_S)
