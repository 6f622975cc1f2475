"""Path: no-op tasks through one worker with two slots, jetq against plain Celery with its defaults.

The queue is filled first; the time counts from 15 % to 90 % of it consumed. Round trips are counted on the wire of a
second, short run (publish included).
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from celery import Celery
from redis import Redis

from benchmarks._fleet import Machine
from benchmarks._plain import plain_app
from benchmarks._report import Report, Spread, options
from benchmarks._server import server
from benchmarks._trips import count
from benchmarks._workers import CLUSTER, Kind, cpu_s, settings, wait, workers
from benchmarks.app.tasks import bench
from jetq import wire
from jetq.store import keys
from jetq.store.redis import connect

JOBS, QUICK_JOBS = 2000, 600
#: Jobs whose commands are counted.
COUNTED = 300
#: The last no-op jobs have ended so long after their queue is empty (s).
SETTLE_S = 0.5
#: What an idle worker sends is counted so long (s).
IDLE_S = 5.0
MACHINE = Machine("node", 2, 1.0, "pc")
WALL_LIMIT, TRIPS_LIMIT = 0.85, 4.0
KINDS = {
    "plain": Kind(routed=False),
    "jetq": Kind(routed=True),
    "plain, results": Kind(routed=False, results=True),
    "jetq, results": Kind(routed=True, results=True),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one job cost, over one run."""

    wall_us: float
    workers_us: float  # CPU of all processes of the worker
    server_us: float  # CPU of the broker
    trips: float


def measure(url: str, kind: Kind, jobs: int) -> Cost:
    """Fill the queue, start the worker, and watch the queue get short."""
    client = connect(url)
    client.flushall()
    app = wire.create_app(settings(url), url, current=False) if kind.routed else plain_app(url, results=kind.results)

    queue = keys.with_priority(keys.prefix(CLUSTER) + keys.shared_queue("any"), 3) if kind.routed else "celery"

    def left() -> int:
        return int(cast(int, client.llen(queue)))

    publish(app, kind, jobs)
    assert left() == jobs, (left(), jobs)
    with workers(kind, url, [MACHINE], wait_ready=False) as pids:
        wait(lambda: left() <= jobs * 0.85, 60, "the first jobs to be taken", every_s=0.003)
        before = (time.perf_counter(), left(), cpu_s(pids), server_cpu_s(client))
        wait(lambda: left() <= jobs * 0.10, 120, "the queue to get short", every_s=0.003)
        after = (time.perf_counter(), left(), cpu_s(pids), server_cpu_s(client))
        done = before[1] - after[1]
        wall_us, workers_us, server_us = ((after[i] - before[i]) / done * 1e6 for i in (0, 2, 3))
        wait(lambda: left() == 0, 60, "the queue to be empty")
        time.sleep(SETTLE_S)
        return Cost(wall_us, workers_us, server_us, trips(client, lambda: publish(app, kind, COUNTED), left))


def trips(client: Redis, work: Callable[[], None], left: Callable[[], int]) -> float:
    """Return round trips per job, without those that the clock makes: beats, polls of an idle worker."""
    made, took_s = count(client, work, _Quiet(left))
    end_s = time.monotonic() + IDLE_S
    idle, idle_s = count(client, lambda: None, lambda: time.monotonic() > end_s)
    return round((made - idle / idle_s * took_s) / COUNTED, 2)


class _Quiet:
    """True once the queue has been empty for a while: then the last jobs have ended."""

    def __init__(self, left: Callable[[], int]) -> None:
        self._left = left
        self._busy_s = time.monotonic()

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if self._left():
            self._busy_s = now_s
        return now_s - self._busy_s > SETTLE_S


def publish(app: Celery, kind: Kind, jobs: int) -> None:
    """Send no-op jobs one by one, as users do."""
    task = app.tasks[bench.noop.name]
    for number in range(jobs):
        task.apply_async((number,), ignore_result=not kind.results)


def server_cpu_s(client: Redis) -> float:
    """Return the CPU seconds of the broker."""
    info: dict[str, Any] = client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    asked = options(__doc__, argv, repeats=5)
    jobs = QUICK_JOBS if asked.quick else JOBS
    report = Report("path", f"{jobs} no-op tasks through one worker with two slots")
    costs: dict[str, list[Cost]] = {name: [] for name in KINDS}
    with server() as url:
        for _ in range(asked.repeats):
            for name in random.sample(list(KINDS), len(KINDS)):
                costs[name].append(measure(url, KINDS[name], jobs))
    rows = []
    for name, found in costs.items():
        plain = costs[name.replace("jetq", "plain")]
        ratio = Spread.of(a.wall_us / b.wall_us for a, b in zip(found, plain, strict=True))
        cells = [
            Spread.of(getattr(c, field) for c in found) for field in ("wall_us", "workers_us", "server_us", "trips")
        ]
        rows.append([name, cells[0], ratio, *cells[1:]])
        if name.startswith("jetq"):
            report.budget(f"path of a no-op task, {name} / plain", ratio, WALL_LIMIT)
            report.budget(f"round trips a task, {name}", cells[3], TRIPS_LIMIT)
    columns = ("worker", "wall us", "/ plain", "CPU of the worker us", "CPU of the broker us", "round trips")
    report.table(f"per job, {asked.repeats} repeats", columns, rows)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
