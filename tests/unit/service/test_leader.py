"""What a leader does and refrains from, on a real ledger and a clock that the test moves."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from jetq import ids
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.survey import Lead
from jetq.policy import strategies
from jetq.service.leader import TURN_S, Leader
from jetq.store.base import Order, Parcel
from jetq.store.redis import RedisStore, connect

DEAD_S = 5.0


class MovedClock(RedisStore):
    """The ledger of a server whose clock somebody sets; a lease ends with that."""

    moved_s = 0.0
    _was_s = 0.0

    def lead(self, node: str, epoch: str, *, lease_s: float) -> Lead:
        if self.moved_s != self._was_s:
            self._was_s = self.moved_s
            self.client.hset(f"{self.prefix}leader", "until", 0)
        lead = super().lead(node, epoch, lease_s=lease_s)
        return replace(lead, time_s=self.now_s + self.moved_s)

    def due(self, limit: int = 100, *, expected_s: float | None = None) -> bool:
        return super().due(limit)

    now_s = 1000.0


class Scene:
    """One leader, and nodes that a test moves by hand."""

    def __init__(self, url: str) -> None:
        self.store = MovedClock(connect(url), "t")
        self.leader = Leader(self.store, "me", "epoch-me", list, dead_s=DEAD_S, clock=lambda: self.store.now_s)
        self.epochs: dict[str, str] = {}
        self.seq = 0

    def node(self, name: str) -> None:
        epoch = self.epochs[name] = ids.random64()
        self.store.join(NodeFacts(name, name, epoch, 2, 0, 1 << 30, "pc", (), "0"), strategies.rates(2, 1, 1), dead_s=5)
        self.beat(name)

    def beat(self, name: str) -> bool:
        self.seq += 1
        beat = Beat(name, self.epochs[name], self.seq, "up", strategies.rates(2, 1, 1), 0.0, 1.0, 1.0, Metrics())
        return self.store.beat(beat).accepted

    def put(self, **times: float) -> str:
        parcel = Parcel(ids.new_job_id(), ids.random64(), "d", 0, "envelope", **times)
        self.store.publish(Order("t.work"), [parcel])
        return parcel.job_id

    def pass_time(self, seconds: float, *beating: str) -> None:
        """Let time pass, turn by turn."""
        for _ in range(round(seconds / TURN_S)):
            self.store.now_s += TURN_S
            for name in beating:
                self.beat(name)
            self.leader.turn()

    def state(self, name: str) -> str:
        raw = self.store.client.hget(f"{self.store.prefix}node:{name}", "state")
        return raw.decode()


@pytest.fixture
def scene(redis_url: str) -> Scene:
    scene = Scene(redis_url)
    scene.leader.turn()
    return scene


def test_a_silent_node_is_suspect_then_dead_and_its_job_moves(scene) -> None:
    scene.node("a")
    job = scene.put()
    scene.node("b")

    scene.pass_time(3.0, "b")
    assert (scene.state("a"), scene.state("b")) == ("suspect", "up")
    scene.pass_time(3.0, "b")

    assert (scene.state("a"), scene.state("b")) == ("dead", "up")
    assert scene.store.job(job).nodes == ["b"]


def test_a_leader_that_was_away_itself_declares_nobody_dead_at_once(scene) -> None:
    scene.node("a")
    scene.pass_time(1.0, "a")

    scene.store.now_s += 60  # it was frozen
    scene.leader.turn()
    scene.pass_time(4.0)

    assert scene.state("a") == "suspect"
    scene.pass_time(1.0)
    assert scene.state("a") == "dead"


@pytest.mark.parametrize(("gap_s", "state"), [(0.0, "dead"), (2.0, "suspect")])
def test_the_node_that_led_is_dead_in_time_for_a_leader_that_has_listened_all_the_while(scene, gap_s, state) -> None:
    other = Leader(scene.store, "other", "epoch-other", list, dead_s=DEAD_S, clock=lambda: scene.store.now_s)
    scene.node("me")
    for _ in range(4):
        scene.pass_time(TURN_S, "me")
        other.turn()

    for turn in range(10):  # it is silent from now on
        scene.store.now_s += TURN_S + (gap_s if turn == 2 else 0)
        if turn == 6:
            scene.store.client.hset(f"{scene.store.prefix}leader", "until", 0)
        other.turn()

    assert other.leads
    assert scene.state("me") == state


def test_a_clock_of_the_server_that_jumps_kills_nobody_and_moves_what_waits(scene, caplog) -> None:
    caplog.set_level(logging.WARNING, "jetq")
    logging.getLogger("jetq").propagate = True
    scene.node("a")
    scene.put(delay_s=100.0)
    before = scene.store.client.zrange(scene.store.prefix + "due", 0, -1, withscores=True)[0][1]
    scene.pass_time(1.0, "a")

    scene.store.moved_s = 50 * 365.25 * 86400
    scene.pass_time(1.0, "a")

    after = scene.store.client.zrange(scene.store.prefix + "due", 0, -1, withscores=True)[0][1]
    assert after - before == pytest.approx(scene.store.moved_s, abs=1)
    assert scene.state("a") == "up"
    assert "clock.set" in caplog.text


def test_the_times_are_moved_once_though_another_leads_since_the_clock_was_set(scene) -> None:
    other = Leader(scene.store, "other", "epoch-other", list, dead_s=DEAD_S, clock=lambda: scene.store.now_s)
    scene.put(delay_s=100.0)
    before = scene.store.client.zrange(scene.store.prefix + "due", 0, -1, withscores=True)[0][1]
    scene.pass_time(1.0)
    other.turn()

    scene.store.moved_s = 50 * 365.25 * 86400
    for _ in range(3):
        scene.store.now_s += TURN_S
        other.turn()
        scene.leader.turn()

    after = scene.store.client.zrange(scene.store.prefix + "due", 0, -1, withscores=True)[0][1]
    assert after - before == pytest.approx(scene.store.moved_s, abs=1)
    assert other.leads
    assert not scene.leader.leads


def test_a_lost_message_is_sent_again_within_a_few_turns(scene) -> None:
    scene.node("a")
    scene.put()
    for key in scene.store.client.scan_iter(f"{scene.store.prefix}node.a*"):
        scene.store.client.delete(key)

    scene.pass_time(2.0, "a")

    assert scene.store.queues()["node.a"] == 1


def test_who_does_not_lead_touches_nothing(scene) -> None:
    scene.node("a")
    other = Leader(scene.store, "other", "epoch-other", list, dead_s=DEAD_S, clock=lambda: scene.store.now_s)

    for _ in range(30):
        scene.store.now_s += TURN_S
        other.turn()

    assert not other.leads
    assert scene.leader.leads
    assert scene.state("a") == "up"
