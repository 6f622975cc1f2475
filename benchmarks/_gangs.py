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
from jetq.policy.backoff import Rest, refused
from jetq.policy.placement import choose
from jetq.policy.timetable import Hold, Reservation, Room, Timetable
from jetq.policy.turns import QueuedGang

#: Widths of the benchmark's gangs, and their shares.
WIDTHS = {1: 0.75, 4: 0.15, 8: 0.10}
#: Programs of one width, the mean runtime of all (s), and how much the runs of one program differ (sigma of the log).
PROGRAMS, MEAN_S, SIGMA = 10, 300.0, 0.4
#: A node that refuses to take part says so after this time (s).
REFUSAL_S = 2.0
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


@dataclass(frozen=True, slots=True)
class Mishaps:
    """What goes wrong."""

    lost: Sequence[tuple[float, float, str]] = ()  # from, until (s), node
    refuses: Callable[[Start], str | None] = lambda _: None  # the node that refuses in prepare, if one does


NOTHING_GOES_WRONG = Mishaps()


@dataclass(frozen=True, slots=True)
class _Attempt:
    began_s: float
    predicted_s: float
    ends_s: float
    nodes: tuple[str, ...]
    refused_by: str | None


class Cluster:
    """Nodes, the queue and what runs; a look at the queue after everything that happens."""

    def __init__(
        self,
        rooms: Iterable[Room],
        jobs: Sequence[GangJob],
        decider: Decider = easy,
        predict: Predictor = last_two,
        watch: Callable[[Look], None] | None = None,
        mishaps: Mishaps = NOTHING_GOES_WRONG,
    ) -> None:
        self.ended: list[Run] = []
        self._rooms = {room.name: room for room in rooms}
        self._jobs = {f"g{number:06}": job for number, job in enumerate(jobs)}
        self._decider, self._predict, self._watch, self._mishaps = decider, predict, watch, mishaps
        self._runs: dict[str, list[float]] = {}
        self._queue: dict[str, QueuedGang] = {}
        self._running: dict[str, _Attempt] = {}
        self._planned: tuple[Reservation, ...] = ()
        self._away: set[str] = set()
        self._rests: dict[str, Rest] = {}
        self._events: list[tuple[float, str, str]] = [(job.at_s, "arrive", id_) for id_, job in self._jobs.items()]
        for from_s, until_s, node in mishaps.lost:
            self._events += [(from_s, "lose", node), (until_s, "return", node)]
        heapq.heapify(self._events)

    def run(self) -> list[Run]:
        """Run until nothing happens any more; return what ended, in the order of its ends."""
        happen = {"arrive": self._arrive, "end": self._end, "lose": self._lose, "return": self._away.discard}
        while self._events:
            now_s = self._events[0][0]
            while self._events and self._events[0][0] <= now_s:
                at_s, what, who = heapq.heappop(self._events)
                if what == "end" and (who not in self._running or self._running[who].ends_s != at_s):
                    continue  # that attempt was lost before
                if what in happen:
                    happen[what](who)
            self._look(now_s)
        return self.ended

    def _arrive(self, id_: str) -> None:
        job = self._jobs[id_]
        predicted_s = self._predict(job, self._runs)
        gang = QueuedGang(id_, job.name, job.priority, job.at_s, job.least, job.most, job.needs, predicted_s)
        self._queue[id_] = gang

    def _end(self, id_: str) -> None:
        attempt = self._running.pop(id_)
        if attempt.refused_by is not None:
            self._arrive(id_)
            rest = refused(self._rests.get(attempt.refused_by), attempt.ends_s, "a port is taken")
            self._rests[attempt.refused_by] = rest
            heapq.heappush(self._events, (rest.until_s, "look", ""))
            return
        job = self._jobs[id_]
        runs = self._runs.setdefault(job.name, [])
        runs.insert(0, attempt.ends_s - attempt.began_s)
        del runs[2:]
        for other in [other for other, gang in self._queue.items() if gang.name == job.name]:
            self._arrive(other)
        self.ended.append(Run(job, attempt.began_s, attempt.ends_s, attempt.nodes))

    def _lose(self, node: str) -> None:
        self._away.add(node)
        for id_ in [id_ for id_, attempt in self._running.items() if node in attempt.nodes]:
            del self._running[id_]
            self._arrive(id_)

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
            refuser = self._mishaps.refuses(start)
            ends_s = now_s + (self._jobs[gang.id].size_s if refuser is None else REFUSAL_S)
            self._running[gang.id] = _Attempt(now_s, gang.predicted_s, ends_s, start.nodes, refuser)
            heapq.heappush(self._events, (ends_s, "end", gang.id))

    def _seen(self, now_s: float) -> tuple[Room, ...]:
        holds: dict[str, list[Hold]] = {name: [] for name in self._rooms}
        for id_, attempt in self._running.items():
            needs = self._jobs[id_].needs
            ends_s = runtime.end_s(attempt.began_s, attempt.predicted_s, now_s)
            hold = Hold(id_, "gang", needs.slots, needs.gpu, needs.mem_bytes, ends_s)
            for node in attempt.nodes:
                holds[node].append(hold)
        return tuple(
            replace(
                room,
                holds=(*room.holds, *holds[name]),
                rests_until_s=self._rests[name].until_s if name in self._rests else 0.0,
            )
            for name, room in self._rooms.items()
            if name not in self._away
        )


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
