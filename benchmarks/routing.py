"""Routing: sojourn of each strategy, and of plain Celery, against the ideal on the same trace.

The ideal is "the fastest idle slot, else one central queue"; the migrating oracle beside it is a bound nobody reaches.
Simulated: virtual time, but each pick, claim and settle is the ledger's own script on a real server.
Live: real nodes and real workers whose tasks sleep, ``dynamic`` against plain Celery with prefetch 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import _fleet, _live
from benchmarks._fleet import MIXES, RHOS, WARM_UP, Job, Machine
from benchmarks._ledger import LedgerDispatcher, unknown_boards
from benchmarks._plot import bars
from benchmarks._report import Report, Spread, mean, options, p99
from benchmarks._server import fresh_store, server
from benchmarks._simulate import CelerySharedQueue, Central, migrating_oracle, run
from jetq.policy.strategies import BUILT_IN

#: Jobs of one trace, and of one trace in a smoke run.
JOBS, QUICK_JOBS = 5000, 300
#: Budget of mean and p99 against the ideal.
MEAN_LIMIT, P99_LIMIT = 1.10, 1.20
IDEAL = "ideal: fastest idle slot"
UNKNOWN = "dynamic, boards unknown"

Sojourns = Callable[[list[Machine], list[Job]], list[float]]


def systems(url: str) -> dict[str, Sojourns]:
    """Return everything that is simulated, by name; the ideal first."""

    def ledger(strategy: str, known: bool = True) -> Sojourns:
        def simulate(machines: list[Machine], jobs: list[Job]) -> list[float]:
            seen = machines if known else unknown_boards(machines)
            return run(machines, jobs, LedgerDispatcher(fresh_store(url), seen, jobs, strategy))

        return simulate

    return {
        IDEAL: lambda machines, jobs: run(machines, jobs, Central(machines)),
        "migrating oracle (bound)": migrating_oracle,
        **{name: ledger(name) for name in sorted(BUILT_IN)},
        UNKNOWN: ledger("dynamic", known=False),
        "Celery, prefetch 1, disable_prefetch": lambda m, jobs: run(m, jobs, CelerySharedQueue(m, 0)),
        "Celery, defaults": lambda m, jobs: run(m, jobs, CelerySharedQueue(m, 4)),
    }


def measured(sojourns: Sequence[float]) -> Sequence[float]:
    """Cut the warm-up off."""
    return sojourns[int(len(sojourns) * WARM_UP) :]


def simulate(report: Report, url: str, jobs: int, repeats: int) -> dict[tuple[str, str, float], tuple[Spread, Spread]]:
    """Run every system on every mix and load; returns (system, mix, rho) -> ratios of mean and p99 to the ideal."""
    found: dict[tuple[str, str, float], tuple[Spread, Spread]] = {}
    for mix in MIXES:
        for rho in RHOS:
            means: dict[str, list[float]] = {}
            tails: dict[str, list[float]] = {}
            for seed in range(repeats):
                trace = _fleet.trace(mix, rho, jobs, seed)
                for name, system in systems(url).items():
                    kept = measured(system(_fleet.fleet(), trace))
                    means.setdefault(name, []).append(mean(kept))
                    tails.setdefault(name, []).append(p99(kept))
            rows = []
            for name, own in means.items():
                of_mean = Spread.of(a / b for a, b in zip(own, means[IDEAL], strict=True))
                of_tail = Spread.of(a / b for a, b in zip(tails[name], tails[IDEAL], strict=True))
                found[name, mix, rho] = of_mean, of_tail
                rows.append([name, Spread.of(own), of_mean, Spread.of(tails[name]), of_tail])
            columns = ("simulated", "mean (s)", "mean / ideal", "p99 (s)", "p99 / ideal")
            report.table(f"{mix} sizes, rho {rho}: {jobs} jobs, {repeats} traces", columns, rows)
            of_mean, of_tail = found["dynamic", mix, rho]
            report.budget(f"dynamic, {mix} {rho}, mean / ideal", of_mean, MEAN_LIMIT)
            report.budget(f"dynamic, {mix} {rho}, p99 / ideal", of_tail, P99_LIMIT)
    return found


def live(
    report: Report, jobs: int, repeats: int, simulated: dict[tuple[str, str, float], tuple[Spread, Spread]]
) -> None:
    """Run two traces in real time on real nodes, and show how far the simulation was off."""
    rho = RHOS[-1]
    for mix in MIXES:
        ratios: dict[str, list[tuple[float, float]]] = {}
        for seed in range(repeats):
            trace = _fleet.trace(mix, rho, jobs, seed)
            ideal = measured(run(_fleet.fleet(), trace, Central(_fleet.fleet())))
            for name, system in _live.SYSTEMS.items():
                kept = measured(system(_fleet.fleet(), trace))
                ratios.setdefault(name, []).append((mean(kept) / mean(ideal), p99(kept) / p99(ideal)))
                report.say(
                    f"{mix} {rho}, trace {seed + 1} of {repeats}, {name}: mean / ideal {ratios[name][-1][0]:.3f}"
                )
        rows = []
        for name, pairs in ratios.items():
            of_mean, of_tail = Spread.of(p[0] for p in pairs), Spread.of(p[1] for p in pairs)
            model_mean, model_tail = simulated[name, mix, rho]
            off = of_mean.median / model_mean.median - 1, of_tail.median / model_tail.median - 1
            rows.append([name, of_mean, f"{off[0]:+.1%}", of_tail, f"{off[1]:+.1%}"])
        best = ratios["dynamic"]
        report.budget(f"dynamic in real time, {mix} {rho}, mean / ideal", Spread.of(p[0] for p in best), MEAN_LIMIT)
        report.budget(f"dynamic in real time, {mix} {rho}, p99 / ideal", Spread.of(p[1] for p in best), P99_LIMIT)
        columns = ("in real time", "mean / ideal", "off simulated", "p99 / ideal", "off simulated")
        report.table(f"{mix} sizes, rho {rho}: {jobs} jobs, {repeats} paired repeats", columns, rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--live", action=argparse.BooleanOptionalAction, default=True, help="also in real time")
        parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the strategies there")

    asked = options(__doc__, argv, repeats=3, add=more)
    jobs = QUICK_JOBS if asked.quick else JOBS
    report = Report("routing", "sojourn against the ideal on the same trace; 10 mixed nodes, 20 slots")
    with server() as url:
        found = simulate(report, url, jobs, asked.repeats)
    if asked.svg:
        shown = {name: {(m, r): v[0].median for (n, m, r), v in found.items() if n == name} for name, _, _ in found}
        asked.svg.write_text(bars("mean sojourn / ideal (1 = fastest idle slot, else one queue)", shown), "utf-8")
    if asked.live:
        live(report, jobs, asked.repeats, found)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
