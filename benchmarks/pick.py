"""Pick: what one publish costs the server as the cluster grows; the pick must not grow with it.

Server microseconds of the publish script (commandstats), at half load, on clusters of four board models.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks._fleet import Machine
from benchmarks._ledger import TASK, join
from benchmarks._report import Report, Spread, options
from benchmarks._server import server
from jetq.ids import random64
from jetq.model.needs import Needs
from jetq.policy.strategies import BUILT_IN
from jetq.store.base import Order, Parcel
from jetq.store.redis import RedisStore, connect

SIZES = (10, 100, 1000)
BOARDS = ("Nano", "Xavier NX", "Orin NX 16GB", "AGX Orin 64GB")
#: Most that 1000 nodes may cost in units of 10 nodes.
LIMIT = 1.5
#: Share of all slots that are leased while picks are timed.
LOAD = 0.5
#: A message of this length (bytes) stands for what Celery writes.
ENVELOPE = "x" * 900


def machines(count: int) -> list[Machine]:
    """Return a mixed cluster of ``count`` nodes."""
    draw = random.Random(count)
    return [Machine(f"n{i}", draw.choice((2, 4, 6)), 1.0, BOARDS[i % len(BOARDS)]) for i in range(count)]


class Cluster:
    """A ledger whose load stays where it is: as many jobs are dropped as were published."""

    def __init__(self, store: RedisStore, count: int, order: Order) -> None:
        self._store = store
        self._order = order
        self._held: list[tuple[str, str]] = []
        nodes = machines(count)
        join(store, nodes)
        store.set_speeds(TASK, {board: 1.0 + 0.1 * i for i, board in enumerate(BOARDS)})
        slots = sum(m.slots for m in (nodes[::2] if order.needs.labels else nodes))
        self._step = min(20, slots // 8)
        for _ in range(int(LOAD * slots)):
            self._publish()

    def cost_us(self, picks: int) -> float:
        """Return the server's microseconds for one publish, over at least ``picks`` of them."""
        micros, calls = 0.0, 0
        while calls < picks:
            self._store.client.config_resetstat()
            for _ in range(self._step):
                self._publish()
            stats: dict[str, Any] = self._store.client.info("commandstats")["cmdstat_evalsha"]
            micros += stats["usec"]
            calls += stats["calls"]
            for _ in range(self._step):
                job_id, node = self._held.pop(random.randrange(len(self._held)))
                self._store.drop(job_id, "0", node, "CANCELLED", "benchmark")
        return micros / calls

    def _publish(self) -> None:
        job_id = random64()
        placed = self._store.publish(self._order, [Parcel(job_id, "0", "0", 0, ENVELOPE)])[0]
        if placed.node is None:
            raise RuntimeError(f"a cluster with free slots did not take a job: {placed}")
        self._held.append((job_id, placed.node))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    asked = options(__doc__, argv, repeats=5)
    picks = 40 if asked.quick else 2000
    report = Report("pick", "the publish script (pick, lease, record, message) at 10, 100 and 1000 nodes")
    orders = {name: Order(TASK, strategy=name) for name in sorted(BUILT_IN)}
    orders["dynamic, a label half of the nodes carry"] = Order(TASK, needs=Needs(labels=("half",)))
    rows = []
    with server() as url:
        for name, order in orders.items():
            clusters = {size: Cluster(RedisStore(connect(url), f"c{len(rows)}-{size}"), size, order) for size in SIZES}
            costs: dict[int, list[float]] = {size: [] for size in SIZES}
            for _ in range(asked.repeats):
                for size in SIZES:
                    costs[size].append(clusters[size].cost_us(picks))
            ratio = Spread.of(a / b for a, b in zip(costs[1000], costs[10], strict=True))
            rows.append([name, *(Spread.of(costs[size]) for size in SIZES), ratio])
            if name == "dynamic":
                report.budget("pick at 1000 nodes / at 10", ratio, LIMIT)
    report.table(f"server us per publish, {asked.repeats} repeats", ("strategy", *map(str, SIZES), "1000 / 10"), rows)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
