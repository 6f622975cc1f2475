"""The references of the routing benchmark agree with queueing theory and with each other."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks import _fleet
from benchmarks._fleet import Job, Machine
from benchmarks._report import Spread, mean, p99
from benchmarks._simulate import CelerySharedQueue, Central, migrating_oracle, run


def erlang_c(servers: int, load: float) -> float:
    """Return the chance that an arrival waits. ``load``: arrival rate x service time."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    rho = load / servers
    return blocked / (1 - rho + rho * blocked)


def test_one_central_queue_over_equal_slots_waits_as_erlang_says():
    machines = [Machine(f"m{i}", 2, 1.0, "pc") for i in range(5)]
    draw = random.Random(1)
    at_s, jobs = 0.0, []
    for _ in range(100_000):
        at_s += draw.expovariate(8.0)
        jobs.append(Job(at_s, draw.expovariate(1.0)))

    sojourn_s = mean(run(machines, jobs, Central(machines))[5000:])

    assert sojourn_s == pytest.approx(1.0 + erlang_c(10, 8.0) / (10 - 8.0), rel=0.05)


def test_where_all_slots_are_equal_migration_gains_nothing():
    machines = [Machine(f"m{i}", 2, 1.5, "pc") for i in range(3)]
    jobs = _fleet.trace("exponential", 0.25, 3000, 7)

    assert migrating_oracle(machines, jobs) == pytest.approx(run(machines, jobs, Central(machines)))


@pytest.mark.parametrize("mix", _fleet.MIXES)
def test_the_oracle_bounds_the_ideal_and_the_ideal_bounds_celery(mix):
    machines = _fleet.fleet()
    jobs = _fleet.trace(mix, 0.8, 4000, 3)

    oracle = mean(migrating_oracle(machines, jobs))
    ideal = mean(run(machines, jobs, Central(machines)))
    late = mean(run(machines, jobs, CelerySharedQueue(machines, 0)))
    early = mean(run(machines, jobs, CelerySharedQueue(machines, 4)))

    assert oracle < ideal < late < early


@pytest.mark.parametrize("mix", _fleet.MIXES)
def test_a_trace_is_repeatable_and_loads_the_fleet_as_asked(mix):
    jobs = _fleet.trace(mix, 0.8, 20_000, 1)

    assert jobs == _fleet.trace(mix, 0.8, 20_000, 1)
    work = math.fsum(job.size_s for job in jobs) / jobs[-1].at_s
    assert work / _fleet.capacity(_fleet.fleet()) == pytest.approx(0.8, rel=0.06)
    assert sum(m.slots for m in _fleet.fleet()) == 20


def test_a_dispatcher_that_starts_a_job_on_a_full_machine_is_caught():
    class Stubborn:
        def arrived(self, job, now_s):
            return [(job, 0)]

        def ended(self, job, machine, now_s):
            return []

    with pytest.raises(RuntimeError, match="without an idle slot"):
        run([Machine("m", 1, 1.0, "pc")], [Job(0.0, 1.0), Job(0.1, 1.0)], Stubborn())


def test_percentiles_and_spreads_are_plain():
    assert p99(list(range(1, 101))) == 99
    assert str(Spread.of([1.0, 2.0, 4.0])) == "2 [1 4]"
