"""A discrete-event simulation of waiting gangs: the policy decides at every arrival and end, time is virtual."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from jetq.model.needs import Needs
from jetq.policy import runtime
from jetq.policy.backfill import Decision, Start, decide
from jetq.policy.placement import choose
from jetq.policy.timetable import Hold, Reservation, Room, Timetable
from jetq.policy.turns import QueuedGang

#: Widths of the benchmark's gangs, and their shares.
WIDTHS = {1: 0.75, 4: 0.15, 8: 0.10}
#: Programs of one width, the mean runtime of all (s), and how much the runs of one program differ (sigma of the log).
PROGRAMS, MEAN_S, SIGMA = 10, 300.0, 0.4
#: One slot of any node.
ANY = Needs()


@dataclass(frozen=True, slots=True)
class GangJob:
    """One arrival."""

    at_s: float
    size_s: float  # what it really takes
    least: int
    most: int
    name: str
    limit_s: float
    priority: int = 3
    needs: Needs = ANY


@dataclass(frozen=True, slots=True)
class Run:
    """How one gang ran."""

    job: GangJob
    began_s: float
    ended_s: float
    nodes: tuple[str, ...]

    @property
    def wait_s(self) -> float:
        """From its arrival to its start."""
        return self.began_s - self.job.at_s


@dataclass(frozen=True, slots=True)
class Look:
    """What the policy saw, and what it decided."""

    now_s: float
    queue: tuple[QueuedGang, ...]
    rooms: tuple[Room, ...]
    before: tuple[Reservation, ...]
    decision: Decision


Decider = Callable[[Sequence[QueuedGang], Sequence[Room], float, Sequence[Reservation]], Decision]
#: (job, newest runtimes of each name) -> predicted runtime (s).
Predictor = Callable[[GangJob, Mapping[str, Sequence[float]]], float]


def trace(rho: float, count: int, nodes: int, seed: int) -> list[GangJob]:
    """Return Poisson arrivals that load so many nodes to ``rho``, same seed same trace."""
    draw = random.Random(f"gangs {rho} {count} {nodes} {seed}")
    drawn = [_gang(draw) for _ in range(count)]
    rate = rho * nodes * count / math.fsum(job.size_s * job.least for job in drawn)
    at_s, jobs = 0.0, []
    for job in drawn:
        at_s += draw.expovariate(rate)
        jobs.append(replace(job, at_s=at_s))
    return jobs


def easy(queue: Sequence[QueuedGang], rooms: Sequence[Room], now_s: float, before: Sequence[Reservation]) -> Decision:
    """Decide as jetq does."""
    return decide(queue, rooms, now_s, before=before)


def strict_fifo(queue: Sequence[QueuedGang], rooms: Sequence[Room], now_s: float, _: Sequence[Reservation]) -> Decision:
    """Start the oldest as long as it fits; nobody passes."""
    return Decision(tuple(_greedy(queue, rooms, now_s, strict=True)), ())


def best_effort(queue: Sequence[QueuedGang], rooms: Sequence[Room], now_s: float, _: Sequence[Reservation]) -> Decision:
    """Start whatever fits, oldest first; keep nothing for anybody."""
    return Decision(tuple(_greedy(queue, rooms, now_s, strict=False)), ())


def exact(job: GangJob, _: Mapping[str, Sequence[float]]) -> float:
    """Know every runtime."""
    return job.size_s


def limits(job: GangJob, _: Mapping[str, Sequence[float]]) -> float:
    """Believe the time limit."""
    return job.limit_s


def last_two(job: GangJob, runs: Mapping[str, Sequence[float]]) -> float:
    """Predict as jetq does."""
    return runtime.of_gang(runs.get(job.name, ()), limit_s=job.limit_s)


class Cluster:
    """Nodes, the queue and what runs; a look at the queue after everything that happens."""

    def __init__(
        self,
        rooms: Iterable[Room],
        jobs: Sequence[GangJob],
        decider: Decider = easy,
        predict: Predictor = last_two,
        watch: Callable[[Look], None] | None = None,
    ) -> None:
        self._rooms = {room.name: room for room in rooms}
        self._jobs = {f"g{number:06}": job for number, job in enumerate(jobs)}
        self._decider, self._predict, self._watch = decider, predict, watch
        self._runs: dict[str, list[float]] = {}
        self._queue: dict[str, QueuedGang] = {}
        self._running: dict[str, tuple[float, float, tuple[str, ...]]] = {}  # began, predicted (s), nodes
        self._planned: tuple[Reservation, ...] = ()
        self._ends: list[tuple[float, str]] = []

    def run(self) -> list[Run]:
        """Run until all have ended or nothing happens any more; return what ran, in the order of its ends."""
        arrivals = sorted(((job.at_s, id_) for id_, job in self._jobs.items()), reverse=True)
        ended: list[Run] = []
        while arrivals or self._ends:
            now_s = min(([arrivals[-1][0]] if arrivals else []) + ([self._ends[0][0]] if self._ends else []))
            while self._ends and self._ends[0][0] <= now_s:
                ended.append(self._end(*heapq.heappop(self._ends)))
            while arrivals and arrivals[-1][0] <= now_s:
                self._queue[arrivals[-1][1]] = self._queued(arrivals[-1][1])
                arrivals.pop()
            self._look(now_s)
        return ended

    def _queued(self, id_: str) -> QueuedGang:
        job = self._jobs[id_]
        predicted_s = self._predict(job, self._runs)
        return QueuedGang(id_, job.name, job.priority, job.at_s, job.least, job.most, job.needs, predicted_s)

    def _end(self, now_s: float, id_: str) -> Run:
        began_s, _, nodes = self._running.pop(id_)
        job = self._jobs[id_]
        runs = self._runs.setdefault(job.name, [])
        runs.insert(0, now_s - began_s)
        del runs[2:]
        for other, gang in self._queue.items():
            if gang.name == job.name:
                self._queue[other] = self._queued(other)
        return Run(job, began_s, now_s, nodes)

    def _look(self, now_s: float) -> None:
        if not self._queue:
            return
        queue, rooms = tuple(self._queue.values()), self._seen(now_s)
        decision = self._decider(queue, rooms, now_s, self._planned)
        if self._watch:
            self._watch(Look(now_s, queue, rooms, self._planned, decision))
        self._planned = decision.reservations
        for start in decision.starts:
            gang = self._queue.pop(start.gang_id)
            self._running[gang.id] = now_s, gang.predicted_s, start.nodes
            heapq.heappush(self._ends, (now_s + self._jobs[gang.id].size_s, gang.id))

    def _seen(self, now_s: float) -> tuple[Room, ...]:
        holds: dict[str, list[Hold]] = {name: [] for name in self._rooms}
        for id_, (began_s, predicted_s, nodes) in self._running.items():
            needs = self._jobs[id_].needs
            ends_s = runtime.end_s(began_s, predicted_s, now_s)
            hold = Hold(id_, "gang", needs.slots, needs.gpu, needs.mem_bytes, ends_s)
            for node in nodes:
                holds[node].append(hold)
        return tuple(replace(room, holds=(*room.holds, *holds[name])) for name, room in self._rooms.items())


def _gang(draw: random.Random) -> GangJob:
    width = draw.choices(list(WIDTHS), list(WIDTHS.values()))[0]
    number = draw.randrange(PROGRAMS)
    usual_s = -MEAN_S * math.log(1 - (number + 0.5) / PROGRAMS)  # the programs' runtimes are spread exponentially
    size_s = usual_s * draw.lognormvariate(-SIGMA * SIGMA / 2, SIGMA)
    return GangJob(0.0, size_s, width, width, f"w{width}-{number}", size_s * draw.uniform(1, 5))


def _greedy(queue: Sequence[QueuedGang], rooms: Sequence[Room], now_s: float, *, strict: bool) -> Iterable[Start]:
    table = Timetable(rooms, now_s)
    for gang in sorted(queue, key=lambda g: (g.submitted_s, g.id)):
        nodes = tuple(room.name for room in choose(table.fitting(gang.demand, now_s), gang.least, gang.most))
        if nodes:
            table.start(nodes, gang.demand)
            yield Start(gang.id, nodes)
        elif strict:
            return
