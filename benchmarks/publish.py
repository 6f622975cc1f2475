"""Publish: what routing costs a producer, against plain Celery on the same server, call by call.

Ten nodes with a free slot for every job of a round; the variants of a round run in random order, and each ratio is
taken within its round.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks import _fleet
from benchmarks._fleet import Machine
from benchmarks._ledger import join
from benchmarks._plain import plain_app
from benchmarks._report import Report, Spread, options
from benchmarks._server import server
from benchmarks._workers import CLUSTER, settings
from benchmarks.app.tasks import bench
from jetq import wire
from jetq.engine import produce
from jetq.store.redis import RedisStore, connect

#: Jobs of one variant in one round: fewer than there are slots.
JOBS = 100
#: Jobs of one ``submit_many``.
MANY = 600
SLOTS = 64
ROUTED_LIMIT, MANY_LIMIT = 1.05, 10.0
PLAIN = "plain apply_async"


def variants(url: str, store: RedisStore) -> dict[str, tuple[int, Callable[[], None]]]:
    """Return what is compared: name -> (jobs it publishes, the publishing)."""
    plain, plain_results = plain_app(url, results=False), plain_app(url, results=True)
    routed = wire.create_app(settings(url), url, current=False)

    def loop(app: object, results: bool) -> Callable[[], None]:
        task = app.tasks[bench.nap.name]  # type: ignore[attr-defined]

        def publish() -> None:
            for number in range(JOBS):
                task.apply_async((number, 0.5), ignore_result=not results)

        return publish

    def many() -> None:
        calls = [((number, 0.5), {}) for number in range(MANY)]
        produce.submit_many(routed, store, bench.nap.name, calls, produce.Options())

    return {
        PLAIN: (JOBS, loop(plain, False)),
        "routed apply_async": (JOBS, loop(routed, False)),
        "plain apply_async, results": (JOBS, loop(plain_results, True)),
        "routed apply_async, results": (JOBS, loop(routed, True)),
        "submit_many": (MANY, many),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    asked = options(__doc__, argv, repeats=41)
    report = Report("publish", f"{JOBS} jobs a round, 10 nodes, append-only file on")
    nodes = [Machine(m.name, SLOTS, m.speed, m.board) for m in _fleet.fleet()]
    costs: dict[str, list[float]] = {}
    with server() as url:
        store = RedisStore(connect(url), CLUSTER)
        compared = variants(url, store)
        for number in range(asked.repeats + 1):
            for name in random.sample(list(compared), len(compared)):
                jobs, publish = compared[name]
                store.client.flushdb()
                join(store, nodes)
                gc.collect()
                begin_s = time.perf_counter()
                publish()
                if number:  # the first round warms connections and scripts up
                    costs.setdefault(name, []).append((time.perf_counter() - begin_s) / jobs * 1e6)
    rows = []
    for name in compared:
        base = f"{PLAIN}, results" if "results" in name else PLAIN
        ratio = Spread.quartiles(a / b for a, b in zip(costs[name], costs[base], strict=True))
        rows.append([name, Spread.quartiles(costs[name]), ratio])
    columns = ("variant", "us per job", "/ plain in its round")
    report.table(f"median [quartiles] of {asked.repeats} rounds", columns, rows)
    found = {str(row[0]): row[2] for row in rows}
    report.budget("routed apply_async / plain", found["routed apply_async"], ROUTED_LIMIT)
    report.budget("routed apply_async / plain, with results", found["routed apply_async, results"], ROUTED_LIMIT)
    faster = Spread.quartiles(b / a for a, b in zip(costs["submit_many"], costs[PLAIN], strict=True))
    report.budget("submit_many throughput / plain loop", faster, MANY_LIMIT, at_most=False)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
