"""The simulation of waiting gangs agrees with what can be computed without it."""

from __future__ import annotations

import heapq

import pytest

from benchmarks._gangs import Cluster, GangJob, best_effort, easy, exact, strict_fifo, trace
from benchmarks.gang_queue import busy
from jetq.policy.timetable import Room

ROOMS = [Room(f"n{number}", 1) for number in range(10)]


def waits_of_one_queue(jobs: list[GangJob], servers: int) -> list[float]:
    """Return the waits of one-node gangs served in turn: each takes the server that is free first."""
    free = [0.0] * servers
    waits = []
    for job in jobs:
        begin_s = max(job.at_s, free[0])
        heapq.heapreplace(free, begin_s + job.size_s)
        waits.append(begin_s - job.at_s)
    return waits


@pytest.mark.parametrize("decider", [strict_fifo, best_effort, easy])
def test_gangs_of_one_node_wait_as_in_one_queue_under_every_discipline(decider):
    narrow = [job for job in trace(0.9, 1500, 3, 1) if job.least == 1]

    runs = Cluster(ROOMS[:3], narrow, decider, exact).run()

    waits = {run.job.at_s: run.wait_s for run in runs}
    expected = waits_of_one_queue(narrow, 3)
    if decider is easy:  # who has waited too long comes first, and so may one that is expected to be shorter
        assert sum(waits.values()) == pytest.approx(sum(expected), rel=0.1)
    else:
        assert list(map(waits.__getitem__, sorted(waits))) == pytest.approx(expected)


def test_a_trace_loads_the_nodes_as_asked():
    jobs = trace(0.5, 4000, 10, 2)

    runs = Cluster(ROOMS, jobs, best_effort, exact).run()

    assert busy(runs, jobs) == pytest.approx(0.5, abs=0.05)
