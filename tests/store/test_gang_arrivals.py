"""Many gangs at once, by the real scheduler on a real ledger: none holds a part, and one always gets on."""

from __future__ import annotations

import itertools
import random

from jetq.model.job import JobState
from jetq.model.members import GangView, MemberView
from jetq.model.survey import Judgement
from jetq.service.leader import Leader
from jetq.service.scheduler import Scheduler
from tests.store.test_gangs import Gangs

NODES = "abcd"
ARRIVALS = 60
#: In the order in which a member goes through them.
STEPS = ("claim", "hello", "begin", "settle")


class Yard:
    """Nodes of 2 slots, the leader's loop, and members that move one step at a time."""

    def __init__(self, cluster, names: str) -> None:
        self.gangs = Gangs(cluster)
        self.store = self.gangs.store
        for name in names:
            self.gangs.node(name)
        self._leader = Leader(self.store, "lead", self.gangs.epoch, list, dead_s=600, clock=lambda: 0.0)
        self._leader.turn()
        ticks = itertools.count(step=10)  # a turn is over after its first look
        self._scheduler = Scheduler(self.store, self._leader, clock=lambda: float(next(ticks)))
        self._tokens: dict[str, str] = {}
        self._done: dict[str, int] = {}  # steps of each member

    def look(self) -> list[GangView]:
        """Let the leader look, and return the gangs: none holds a part of what it needs."""
        self._scheduler.turn()
        views = self.store.gangs()
        leases = {
            name: {held.decode() for held in self.store.client.hkeys(f"{self.store.prefix}leases:{name}")}
            for name in self.gangs.cluster.epochs
        }
        members = {m.job_id: m for gang in views for m in gang.members}
        held = {job for jobs in leases.values() for job in jobs if job.count(".") == 2}
        assert held == {job for job, m in members.items() if not m.ended}
        for gang in views:
            assert len(gang.members) in (0, gang.spec.min_nodes), gang
            assert (gang.state is JobState.QUEUED) == (not gang.members), gang
            for member in gang.members:
                assert member.ended or member.job_id in leases[member.node], member
        for name in leases:
            assert self.gangs.cluster.used(name) <= 2
        return views

    def step(self, member: MemberView) -> None:
        """Move a member on by one step."""
        at = self._done.get(member.job_id, 0)
        if at == 0:
            self._tokens[member.job_id] = self.gangs.claim(member)
        elif STEPS[at] == "settle":
            assert self.gangs.settle(member, self._tokens[member.job_id])
        else:
            self.store.meet(member.job_id, self._tokens[member.job_id], STEPS[at], "")
        self._done[member.job_id] = at + 1

    def running(self, views: list[GangView]) -> list[MemberView]:
        """Return all members that have not ended."""
        return [member for gang in views for member in gang.members if not member.ended]

    def lose(self, *nodes: str) -> None:
        """Let nodes die."""
        for name in nodes:
            epoch = self.gangs.cluster.epochs[name]
            assert self.store.judge(self.gangs.epoch, self._leader.term, Judgement(name, epoch, 1, "dead", "silent"))


def test_60_gangs_that_each_need_over_half_never_stall_and_never_hold_a_part(cluster) -> None:
    draw = random.Random(14)
    yard, sent, hurt = Yard(cluster, NODES), 0, 0
    for _ in range(20_000):
        views = yard.look()
        running = yard.running(views)
        ready = [gang for gang in views if gang.state is JobState.QUEUED and not gang.not_before_s]
        assert running or not ready, "gangs wait, and none has nodes"
        if sent < ARRIVALS and (not running or draw.random() < 0.15):
            yard.gangs.submit(draw.choice((3, 3, 4)), f"g{sent}", ranks=draw.choice((1, 2, 2)))
            sent += 1
        elif running and hurt < 5 and draw.random() < 0.05:
            victim = draw.choice(running)
            gang = next(gang for gang in views if victim in gang.members)
            if gang.state is JobState.RUNNING and not gang.tally:  # a refusal, or a second loss, waits for some time
                yard.store.lost(victim.job_id, victim.node, None, "its lane died")
                hurt += 1
        elif running:
            for member in draw.sample(running, min(len(running), 3)):
                yard.step(member)
        elif not views:
            break

    assert {yard.gangs.state(f"g{number}") for number in range(ARRIVALS)} == {"SUCCEEDED"}
    assert hurt


def run_two(cluster) -> tuple[Yard, dict[str, tuple[str, ...]]]:
    """Return a yard of five nodes on which two gangs of two run, and who has which; a fifth node is idle."""
    yard = Yard(cluster, "abcde")
    for name in ("g1", "g2"):
        yard.gangs.submit(2, name, ranks=2)
    views = yard.look()
    for _ in STEPS[:3]:
        for member in yard.running(views):
            yard.step(member)
    return yard, {gang.id: gang.nodes for gang in yard.look()}


def ended(yard: Yard, gangs: list[GangView], *names: str) -> None:
    """Let the members of gangs end that were asked to."""
    for member in yard.running([gang for gang in gangs if gang.id in names]):
        yard.store.lost(member.job_id, member.node, None, "it was asked to end", then="again")


def test_of_two_gangs_that_lose_a_node_one_gets_on_and_the_other_lets_go_of_everything(cluster) -> None:
    yard, held = run_two(cluster)

    yard.lose(held["g1"][1], held["g2"][1])
    ended(yard, yard.look(), "g1", "g2")
    views = {gang.id: gang for gang in yard.look()}
    for _ in range(3):
        yard.gangs.cluster.put()

    left = set("abcde") - {held["g1"][1], held["g2"][1]} - set(views["g1"].nodes)
    assert (len(views["g1"].nodes), views["g2"].nodes, len(left)) == (2, (), 1)
    for _ in STEPS:
        for member in yard.running(yard.store.gangs()):
            yard.step(member)
    after = yard.look()
    assert [(gang.id, len(gang.nodes)) for gang in after] == [("g2", 2)]


def test_what_comes_while_a_gang_that_lost_a_node_is_ended_does_not_take_the_spare_one(cluster) -> None:
    yard, held = run_two(cluster)
    spare = (set("abcde") - set(held["g1"]) - set(held["g2"])).pop()

    yard.lose(held["g1"][1])
    stopping = yard.look()
    filler = [yard.gangs.cluster.put()[0] for _ in range(3)]
    ended(yard, stopping, "g1")
    views = {gang.id: gang for gang in yard.look()}

    assert {placed.state for placed in filler} == {"QUEUED"}
    assert set(views["g1"].nodes) == {held["g1"][0], spare}
    assert views["g2"].nodes == held["g2"]
