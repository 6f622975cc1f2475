"""What holds for any queue of gangs: thousands of random ones in virtual time, with the real policy code."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from benchmarks._gangs import NOTHING_GOES_WRONG, Cluster, GangJob, Look, Mishaps, Predictor, Run, exact, last_two
from jetq.model.needs import Needs
from jetq.policy import runtime
from jetq.policy.backfill import PATIENCE_S, decide
from jetq.policy.fits import never_fits
from jetq.policy.planned import Planned, planned
from jetq.policy.timetable import Hold, Reservation, Room
from jetq.policy.turns import QueuedGang, in_turn

#: Ten of these make the ten thousand.
GANGS = 1000
_ROUNDING_S = 1e-6


def random_rooms(draw: random.Random) -> list[Room]:
    return [
        Room(
            f"n{number}",
            draw.choice((2, 4, 8)),
            draw.randint(0, 1),
            8 << 30,
            frozenset({draw.choice(("zone=x", "zone=y"))}),
            draw.choice((1.0, 2.0)),
        )
        for number in range(draw.randint(4, 10))
    ]


def random_gangs(draw: random.Random, rooms: list[Room], load: float, count: int) -> list[GangJob]:
    """Return gangs that can all run on these nodes, and load them about so much."""
    jobs: list[GangJob] = []
    at_s = 0.0
    while len(jobs) < count:
        labels = draw.choice(((), (), ("zone=x",), ("zone=y",)))
        needs = Needs(labels, draw.choice((0.5, 1, 2, 4)), draw.choice((0, 0, 1)), draw.choice((0, 4 << 30)))
        able = [room for room in rooms if room.could(needs)]
        if not able:
            continue
        least = draw.randint(1, len(able))
        size_s = draw.expovariate(1 / 300) + 1.0
        taken = (
            max(needs.slots / max(r.slots for r in able), needs.gpu, needs.mem_bytes / (8 << 30)) * least / len(rooms)
        )
        at_s += draw.expovariate(load / (size_s * taken))
        jobs.append(
            GangJob(
                at_s,
                size_s,
                least,
                draw.randint(least, len(able)),
                f"p{draw.randrange(20)}",
                size_s * draw.uniform(1, 3),
                draw.choice((0, 3, 3, 6)),
                needs,
            )
        )
    return jobs


def possible(look: Look) -> list[QueuedGang]:
    """Return the gangs in turn that the nodes which are there could serve if they were idle."""
    return [
        gang
        for gang in in_turn(look.queue, look.now_s)
        if sum(room.could(gang.needs) for room in look.rooms) >= gang.least
    ]


class Watch:
    """Checks each look at the queue, by its own arithmetic."""

    def __init__(self, *, exactly: bool) -> None:
        self.exactly = exactly
        self.looks = 0
        self.promised: dict[str, float] = {}  # gang -> the start it was promised when it became first, its bound passed
        self.late_s: list[float] = []  # how long after that those gangs did start
        self.closings = 0

    def __call__(self, look: Look) -> None:
        self.looks += 1
        gangs = {gang.id: gang for gang in look.queue}
        self._whole(look, gangs)
        self._no_stall(look)
        self._one_reservation_a_class(look, gangs)
        if self.looks % 7 == 0:
            self._backfill_moves_no_reservation(look, gangs)
        self._note_promises(look)
        if self.exactly:
            self._the_first_keeps_its_promise(look)

    def _whole(self, look: Look, gangs: dict[str, QueuedGang]) -> None:
        """All nodes or none, and nowhere more than there is."""
        free = {
            room.name: [
                room.idle_slots,
                room.gpu - sum(h.gpu for h in room.holds),
                room.mem_bytes - sum(h.mem_bytes for h in room.holds),
            ]
            for room in look.rooms
        }
        for start in look.decision.starts:
            gang = gangs[start.gang_id]
            assert len(set(start.nodes)) == len(start.nodes)
            assert gang.least <= len(start.nodes) <= gang.most
            for node in start.nodes:
                for number, taken in enumerate((gang.needs.slots, gang.needs.gpu, gang.needs.mem_bytes)):
                    free[node][number] -= taken
                    assert free[node][number] >= -1e-9

    def _no_stall(self, look: Look) -> None:
        """What is first and finds its nodes free starts; so something always runs while anything waits."""
        if not possible(look):
            return
        first = possible(look)[0]
        able = [
            room
            for room in look.rooms
            if room.could(first.needs)
            and look.now_s >= room.rests_until_s
            and room.idle_slots >= first.needs.slots
            and room.gpu - sum(h.gpu for h in room.holds) >= first.needs.gpu
            and room.mem_bytes - sum(h.mem_bytes for h in room.holds) >= first.needs.mem_bytes
        ]
        started = {start.gang_id for start in look.decision.starts}
        assert (len(able) >= first.least) == (first.id in started)
        assert started or any(room.holds or room.rests_until_s > look.now_s for room in look.rooms)

    def _one_reservation_a_class(self, look: Look, gangs: dict[str, QueuedGang]) -> None:
        booked = look.decision.reservations
        started = {start.gang_id for start in look.decision.starts}
        waiting = [gang for gang in possible(look) if gang.id not in started]
        heads = {gang.label_class: gang.id for gang in reversed(waiting)}
        assert {gangs[r.gang_id].label_class: r.gang_id for r in booked} == heads
        assert len(booked) == len(heads)
        assert all(len(set(r.nodes)) == gangs[r.gang_id].least and r.start_s > look.now_s for r in booked)

    def _backfill_moves_no_reservation(self, look: Look, gangs: dict[str, QueuedGang]) -> None:
        """With what starts now on its nodes, as long as is predicted, each reservation begins when it did."""
        rooms = {room.name: room for room in look.rooms}
        for start in look.decision.starts:
            gang = gangs.pop(start.gang_id)
            needs, ends_s = gang.needs, look.now_s + gang.predicted_s
            hold = Hold(gang.id, "gang", needs.slots, needs.gpu, needs.mem_bytes, ends_s)
            for node in start.nodes:
                rooms[node] = replace(rooms[node], holds=(*rooms[node].holds, hold))
        booked = look.decision.reservations

        again = decide(gangs.values(), list(rooms.values()), look.now_s, before=booked)

        assert not again.starts
        assert {r.gang_id: r.start_s for r in again.reservations} == {r.gang_id: r.start_s for r in booked}

    def _note_promises(self, look: Look) -> None:
        for start in look.decision.starts:
            if start.gang_id in self.promised:
                self.late_s.append(look.now_s - self.promised.pop(start.gang_id))
        for booked in look.decision.reservations:
            if booked.promised_s is not None:
                self.promised.setdefault(booked.gang_id, booked.promised_s)
            self.closings += bool(booked.closed)

    def _the_first_keeps_its_promise(self, look: Look) -> None:
        """Where all predictions hold, the start of who is first only ever comes nearer, and nothing is closed."""
        first = in_turn(look.queue, look.now_s)[0]
        booked = {r.gang_id: r for r in look.decision.reservations}
        if look.before and look.before[0].gang_id == first.id and first.id in booked:
            assert booked[first.id].start_s <= look.before[0].start_s + _ROUNDING_S
        assert not any(reservation.closed for reservation in booked.values())


def simulated(
    seed: int, load: float, predict: Predictor, count: int = GANGS, *, mishaps: Mishaps = NOTHING_GOES_WRONG
) -> tuple[list[Run], Watch]:
    draw = random.Random(seed)
    rooms = random_rooms(draw)
    watch = Watch(exactly=predict is exact)
    jobs = random_gangs(draw, rooms, load, count)
    runs = Cluster(rooms, jobs, predict=predict, watch=watch, mishaps=mishaps).run()
    assert Counter(run.job.at_s for run in runs) == Counter(job.at_s for job in jobs), "each ran once"
    return runs, watch


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("predict", [exact, last_two])
def test_ten_thousand_gangs_never_stall_hold_half_or_are_delayed_by_those_behind(seed, predict):
    runs, watch = simulated(seed, (0.4, 0.6, 0.8, 1.0, 1.5)[seed], predict)

    assert len(runs) == GANGS
    assert watch.looks > GANGS


@pytest.mark.parametrize("seed", range(3))
def test_gangs_that_lose_nodes_or_are_refused_by_them_all_end_and_hold_nothing_meanwhile(seed):
    draw = random.Random(f"mishaps {seed}")
    mishaps = Mishaps(
        [(at_s, at_s + draw.uniform(5.0, 500.0), f"n{draw.randrange(10)}") for at_s in range(0, 60_000, 200)],
        lambda start: draw.choice(start.nodes) if draw.random() < 0.2 else None,
    )

    runs, watch = simulated(seed, 0.7, last_two, count=300, mishaps=mishaps)

    assert len(runs) == 300
    assert watch.looks > 1000


def believing_that_all_is_short(_: GangJob, __: Mapping[str, Sequence[float]]) -> float:
    return 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_gang_past_its_bound_starts_in_time_even_if_every_prediction_is_wrong(seed):
    runs, watch = simulated(seed, 1.2, believing_that_all_is_short, count=300)

    longest_s = max(run.ended_s - run.began_s for run in runs)
    assert len(watch.late_s) > 20
    assert watch.closings > 0
    assert max(watch.late_s) <= PATIENCE_S + longest_s


@pytest.mark.parametrize("seed", range(5))
def test_sixty_gangs_that_each_need_over_half_run_one_after_the_other_without_a_pause(seed):
    draw = random.Random(seed)
    nodes = draw.randint(3, 9)
    jobs = [
        GangJob(draw.uniform(0.0, 50.0) * number / 60, draw.uniform(10.0, 100.0), width, width, f"p{number % 4}", 1e3)
        for number in range(60)
        for width in [draw.randint(nodes // 2 + 1, nodes)]
    ]

    runs = Cluster([Room(f"n{number}", 1) for number in range(nodes)], jobs).run()

    assert len(runs) == 60
    assert runs[-1].ended_s == pytest.approx(jobs[0].at_s + sum(job.size_s for job in jobs))


class BusyNodes:
    """Nodes on which every free slot is taken by the next of endlessly many short tasks, as router and lanes do it."""

    def __init__(self, rooms: list[Room], draw: random.Random) -> None:
        self._rooms, self._draw = rooms, draw
        self._tasks: dict[str, tuple[str, float, float, float]] = {}  # id -> node, began, predicted (s), ends
        self.now_s = 0.0
        self.started = 0

    def until_it_starts(self, gang: QueuedGang, longest_s: float) -> float:
        """Return when the gang starts."""
        before: tuple[Reservation, ...] = ()
        self._fill({}, longest_s)
        while True:
            self.now_s = min((ends_s for *_, ends_s in self._tasks.values()), default=self.now_s)
            self._tasks = {id_: task for id_, task in self._tasks.items() if task[3] > self.now_s}
            decision = decide([gang], self._seen(), self.now_s, before=before)
            if decision.starts:
                return self.now_s
            before = decision.reservations
            self._fill(planned(before), longest_s)

    def _fill(self, kept: dict[str, Planned], longest_s: float) -> None:
        for room in self._seen():
            here = kept.get(room.name)
            idle = room.idle_slots
            predicted_s = self._draw.choice((1.0, 5.0))
            short = here is None or here.lets(self.now_s + predicted_s)
            for _ in range(int(idle if short or here is None else idle - here.slots)):
                self.started += 1
                lasts_s = min(predicted_s * self._draw.lognormvariate(0.0, 1.0), longest_s)
                self._tasks[f"t{self.started}"] = (room.name, self.now_s, predicted_s, self.now_s + lasts_s)

    def _seen(self) -> list[Room]:
        holds: dict[str, list[Hold]] = {room.name: list(room.holds) for room in self._rooms}
        for id_, (node, began_s, predicted_s, _) in self._tasks.items():
            holds[node].append(Hold(id_, "task", 1.0, ends_s=runtime.end_s(began_s, predicted_s, self.now_s)))
        return [replace(room, holds=tuple(holds[room.name])) for room in self._rooms]


@pytest.mark.parametrize("seed", range(5))
def test_a_gang_on_all_nodes_starts_beside_an_endless_stream_on_nodes_that_tasks_keep_full(seed):
    rooms = [Room(f"n{number}", 4) for number in range(8)]
    rooms[3] = replace(rooms[3], holds=(Hold("front-door", "stream", 1.0),))
    gang = QueuedGang("g", "train.py", 6, 0.0, 8, 8, Needs(slots=3), 60.0)
    longest_s = 40.0

    began_s = BusyNodes(rooms, random.Random(seed)).until_it_starts(gang, longest_s)

    assert began_s <= gang.due_s + PATIENCE_S + longest_s
    assert never_fits(replace(gang, needs=Needs(slots=4)), rooms) is not None
