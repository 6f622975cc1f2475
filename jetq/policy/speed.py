"""Speed learned per (task name, board): how much faster a board runs one task than its prior says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median, quantiles

from jetq.policy.smooth import sane

#: Run times kept per (task name, board); the median of these counts.
KEEP = 20
#: Fewer runs teach nothing.
AFTER = 5
#: A learned factor stays within 1/LIMIT..LIMIT.
LIMIT = 32.0
#: Standard error of a median in units of (standard deviation / sqrt(n)), and of a quartile range in deviations.
_MEDIAN_ERROR, _QUARTILES = 1.2533, 1.349
#: Log time shorter than this is the clock's noise (s).
_TICK_S = 1e-4


def factors(runs: Mapping[str, Sequence[float]], priors: Mapping[str, float]) -> dict[str, float]:
    """Return for each board the factor on its prior for one task name: 2.0 = twice as fast as the prior says.

    Only runs that went well belong here: failures go into the trim, so that what fails fast does not look fast.
    Never call it with the runs of several names pooled: a board that got the long jobs would look slow.

    Args:
        runs: board -> its run times of this task, in seconds, newest first; the first 20 count.
        priors: board -> speed of one slot, a PC = 1.0.

    Boards with fewer than 5 runs, and a board without another to compare with, keep 1.0. A median of 20 scattered run
    times is itself uncertain, so a factor goes only as far from 1.0 as it exceeds its own error.
    """
    works = {board: _work(times, priors.get(board, 1.0)) for board, times in runs.items()}
    known = {board: work for board, work in works.items() if work is not None}
    learned = dict.fromkeys(runs, 1.0)
    count = len(known)
    if count < 2:
        return learned
    usual = sum(log_work for log_work, _ in known.values()) / count
    for board, (log_work, error) in known.items():
        others = math.hypot(*(e for name, (_, e) in known.items() if name != board)) / count
        gap = _shrunk(usual - log_work, math.hypot(error * (1 - 1 / count), others))
        learned[board] = min(LIMIT, max(1 / LIMIT, math.exp(gap)))
    return learned


def _shrunk(gap: float, error: float) -> float:
    """Return ``gap`` pulled towards 0 by its uncertainty (James and Stein's rule): nothing is left below its error."""
    if error == 0:
        return gap
    return gap * max(0.0, 1.0 - (error / gap) ** 2) if gap else 0.0


def _work(times: Sequence[float], prior: float) -> tuple[float, float] | None:
    """Return log(run time x prior) and its standard error, or None if too few sane runs are known."""
    logs = [math.log(max(t, _TICK_S)) for t in times if sane(t) is not None][:KEEP]
    if len(logs) < AFTER:
        return None
    low, _, high = quantiles(logs, n=4)
    return median(logs) + math.log(prior), _MEDIAN_ERROR * (high - low) / _QUARTILES / math.sqrt(len(logs))
