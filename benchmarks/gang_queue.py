"""Gang queue: how long gangs of each width wait, and how much of the cluster works, by queue discipline.

Simulated: 10 nodes at load 0.9, 75 % of the gangs need one node, 15 % four and 10 % eight. EASY is the real policy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

from benchmarks._gangs import (
    WIDTHS,
    Cluster,
    Decider,
    GangJob,
    Predictor,
    Run,
    best_effort,
    easy,
    exact,
    last_two,
    limits,
    strict_fifo,
    trace,
)
from benchmarks._report import Report, Spread, mean, options, p99
from jetq.policy.timetable import Room

NODES, RHO = 10, 0.9
#: Gangs of one trace, and of one trace in a smoke run; the first tenth warms up.
JOBS, QUICK_JOBS = 2000, 200
WARM_UP = 0.1
STRICT = "strict FIFO"
EASY = "EASY, mean of the last two runs"
SYSTEMS: dict[str, tuple[Decider, Predictor]] = {
    STRICT: (strict_fifo, exact),
    "best effort": (best_effort, exact),
    EASY: (easy, last_two),
    "EASY, limits 1-5 times too long": (easy, limits),
    "EASY, exact runtimes": (easy, exact),
}


def busy(runs: Sequence[Run], jobs: Sequence[GangJob]) -> float:
    """Return the share (0..1) of the nodes that worked between the warm-up and the last arrival."""
    begin_s, end_s = jobs[int(len(jobs) * WARM_UP)].at_s, jobs[-1].at_s
    worked = (max(0.0, min(run.ended_s, end_s) - max(run.began_s, begin_s)) * len(run.nodes) for run in runs)
    return math.fsum(worked) / (NODES * (end_s - begin_s))


def waits(runs: Sequence[Run], jobs: Sequence[GangJob], width: int) -> list[float]:
    """Return the waits (min) of the gangs of one width that came after the warm-up."""
    from_s = jobs[int(len(jobs) * WARM_UP)].at_s
    return [run.wait_s / 60 for run in runs if run.job.least == width and run.job.at_s >= from_s]


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, print, write."""
    asked = options(__doc__, argv, repeats=5)
    count = QUICK_JOBS if asked.quick else JOBS
    report = Report("gang_queue", f"waits of gangs on {NODES} simulated nodes at load {RHO}; 10 % need eight of them")
    traces = [trace(RHO, count, NODES, seed) for seed in range(asked.repeats)]
    rooms = [Room(f"n{number}", 1) for number in range(NODES)]
    ran = {
        name: [Cluster(rooms, jobs, decider, predict).run() for jobs in traces]
        for name, (decider, predict) in SYSTEMS.items()
    }
    figures: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (("p99", p99), ("mean", mean))
    for word, figure in figures:
        rows = []
        for name, all_runs in ran.items():
            pairs = list(zip(all_runs, traces, strict=True))
            by_width = [[figure(waits(runs, jobs, width)) for runs, jobs in pairs] for width in WIDTHS]
            rows.append([name, *map(Spread.of, by_width), Spread.of(busy(runs, jobs) for runs, jobs in pairs)])
        columns = ("discipline", *(f"{width} node{'s' * (width > 1)} (min)" for width in WIDTHS), "nodes busy")
        report.table(f"{word} wait by width: {count} gangs, {asked.repeats} traces", columns, rows)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
