"""Unequal nodes in virtual time: the ledger's own scripts on a real server, measured without the noise of a machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from benchmarks._fleet import Job, Machine
from benchmarks._ledger import LedgerDispatcher
from benchmarks._report import p99
from benchmarks._simulate import run
from jetq.store.redis import RedisStore, connect

#: Time a job takes on a healthy node (s).
WORK_S = 0.05
#: Jobs at the start that only teach how fast the boards are.
WARM_UP = 200


def sojourns(url: str, machines: Sequence[Machine], jobs: Sequence[Job]) -> list[float]:
    """Return how long each job took from its arrival to its end (s, virtual), on an empty ledger."""
    store = RedisStore(connect(url), "sim")
    store.client.flushall()
    return run(machines, jobs, LedgerDispatcher(store, machines, jobs, "dynamic"))


def test_sixteen_slots_and_one_work_off_a_thousand_jobs_as_seventeen_would(redis_url):
    machines = [Machine("big", 16, 1.0, "pc"), Machine("small", 1, 1.0, "pc")]
    jobs = [Job(0.0, 0.01)] * 1000

    assert max(sojourns(redis_url, machines, jobs)) <= 1.3 * 1000 * 0.01 / 17


@pytest.mark.parametrize(
    "size_s", [lambda _: WORK_S, lambda draw: draw.expovariate(1 / WORK_S)], ids=["constant", "exponential"]
)
def test_two_slow_nodes_make_nobody_wait_longer_than_the_healthy_pair_alone_while_it_has_room(
    redis_url, size_s: Callable[[random.Random], float]
):
    draw = random.Random(5)
    pair = [Machine(f"f{i}", 2, 1.0, "fast") for i in range(2)]
    slow = [Machine(f"s{i}", 2, 1 / 6, "slow") for i in range(2)]
    at_s, jobs = 0.0, []
    for _ in range(1500):
        at_s += draw.expovariate(0.15 * 4 / WORK_S)  # the pair is busy for 15 % of its time
        jobs.append(Job(at_s, size_s(draw)))

    alone_s = p99(sojourns(redis_url, pair, jobs)[WARM_UP:])
    all_s = p99(sojourns(redis_url, [*pair, *slow], jobs)[WARM_UP:])

    assert all_s <= 1.2 * alone_s
