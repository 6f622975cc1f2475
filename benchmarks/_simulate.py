"""A discrete-event simulation: jobs arrive, a dispatcher starts them on nodes, time is virtual."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Protocol

from benchmarks._fleet import Job, Machine

#: (job index, machine index): start this job there, now.
Start = tuple[int, int]


class Dispatcher(Protocol):
    """Decides where jobs run. Every job must be started once, on a machine with an idle slot."""

    def arrived(self, job: int, now_s: float) -> Iterable[Start]:
        """Take one arrival; return what starts now."""
        ...

    def ended(self, job: int, machine: int, now_s: float) -> Iterable[Start]:
        """Take one end; return what starts now."""
        ...


def run(machines: Sequence[Machine], jobs: Sequence[Job], dispatcher: Dispatcher) -> list[float]:
    """Return each job's sojourn (s from arrival to end)."""
    ends: list[tuple[float, int, int]] = []
    idle = [m.slots for m in machines]
    sojourns = [-1.0] * len(jobs)

    def start(starts: Iterable[Start], now_s: float) -> None:
        for job, machine in starts:
            idle[machine] -= 1
            if idle[machine] < 0 or sojourns[job] >= 0:
                raise RuntimeError(f"job {job} was started twice, or on machine {machine} without an idle slot")
            end_s = now_s + jobs[job].size_s / machines[machine].speed
            sojourns[job] = end_s - jobs[job].at_s
            heapq.heappush(ends, (end_s, job, machine))

    def finish_until(now_s: float) -> None:
        while ends and ends[0][0] <= now_s:
            end_s, job, machine = heapq.heappop(ends)
            idle[machine] += 1
            start(dispatcher.ended(job, machine, end_s), end_s)

    for index, job in enumerate(jobs):
        finish_until(job.at_s)
        start(dispatcher.arrived(index, job.at_s), job.at_s)
    finish_until(float("inf"))
    if min(sojourns, default=0.0) < 0:
        raise RuntimeError(f"{sum(s < 0 for s in sojourns)} jobs were never started")
    return sojourns


class Central:
    """The reference: the fastest idle slot, else one central queue."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._order = sorted(range(len(machines)), key=lambda i: -machines[i].speed)
        self._idle = [m.slots for m in machines]
        self._queue: list[int] = []
        self._head = 0

    def arrived(self, job: int, now_s: float) -> Iterable[Start]:
        """Start it on the fastest idle slot, or let it wait."""
        for machine in self._order:
            if self._idle[machine]:
                self._idle[machine] -= 1
                return [(job, machine)]
        self._queue.append(job)
        return []

    def ended(self, job: int, machine: int, now_s: float) -> Iterable[Start]:
        """Give the freed slot to the job that has waited longest."""
        if self._head == len(self._queue):
            self._idle[machine] += 1
            return []
        self._head += 1
        return [(self._queue[self._head - 1], machine)]


def migrating_oracle(machines: Sequence[Machine], jobs: Sequence[Job]) -> list[float]:
    """Return sojourns under free migration: at every moment the k oldest jobs run on the k fastest slots.

    Nothing that keeps a job where it started can reach this; it is printed as a bound.
    """
    speeds = sorted((m.speed for m in machines for _ in range(m.slots)), reverse=True)
    sojourns = [0.0] * len(jobs)
    live: list[list[float]] = []  # [work left, job index], oldest first
    now_s = 0.0

    def advance(until_s: float) -> None:
        nonlocal now_s
        while live:
            running = list(zip(live, speeds, strict=False))
            step_s = min(entry[0] / speed for entry, speed in running)
            if now_s + step_s > until_s:
                for entry, speed in running:
                    entry[0] -= (until_s - now_s) * speed
                break
            now_s += step_s
            for entry, speed in running:
                entry[0] -= step_s * speed
            for entry in [e for e, _ in running if e[0] <= 1e-12]:
                live.remove(entry)
                sojourns[int(entry[1])] = now_s - jobs[int(entry[1])].at_s
        now_s = until_s

    for index, job in enumerate(jobs):
        advance(job.at_s)
        live.append([job.size_s, float(index)])
    advance(float("inf"))
    return sojourns


class CelerySharedQueue:
    """Plain Celery on Redis: one list; the worker that has waited longest in BRPOP gets the next message.

    ``prefetch`` is how many unstarted messages a worker may hold per slot: 4 by default, 0 with
    ``worker_disable_prefetch``.
    """

    def __init__(self, machines: Sequence[Machine], prefetch: int) -> None:
        self._idle = [m.slots for m in machines]
        self._may_hold = [m.slots * prefetch for m in machines]
        self._held: list[list[int]] = [[] for _ in machines]
        self._waiting = list(range(len(machines)))  # in BRPOP, longest first
        self._queue: list[int] = []

    def arrived(self, job: int, now_s: float) -> Iterable[Start]:
        """Push it; a waiting worker pops it."""
        self._queue.append(job)
        return self._hand_out()

    def ended(self, job: int, machine: int, now_s: float) -> Iterable[Start]:
        """Start what the worker holds, and let it ask for more."""
        self._idle[machine] += 1
        starts = self._start(machine)
        if machine not in self._waiting and self._has_credit(machine):
            self._waiting.append(machine)
        return [*starts, *self._hand_out()]

    def _has_credit(self, machine: int) -> bool:
        return self._idle[machine] > 0 or len(self._held[machine]) < self._may_hold[machine]

    def _start(self, machine: int) -> list[Start]:
        starts = []
        while self._idle[machine] and self._held[machine]:
            self._idle[machine] -= 1
            starts.append((self._held[machine].pop(0), machine))
        return starts

    def _hand_out(self) -> list[Start]:
        starts = []
        while self._queue and self._waiting:
            machine = self._waiting.pop(0)
            self._held[machine].append(self._queue.pop(0))
            starts += self._start(machine)
            if self._has_credit(machine):
                self._waiting.append(machine)
        return starts
