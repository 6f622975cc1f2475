"""Picks of the real scripts: turns are taken in weight, nobody catches up, equal nodes are drawn by lot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from jetq.ids import random64
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.policy import strategies
from jetq.store.base import Order, Parcel
from jetq.store.redis import RedisStore, connect

Join = Callable[..., str]


@pytest.fixture
def store(redis_url: str) -> RedisStore:
    return RedisStore(connect(redis_url), "turns")


@pytest.fixture
def join(store: RedisStore) -> Join:
    """Let a node join and beat as up; returns its epoch."""

    def do(name: str, slots: int, *, prior: float = 1.0, board: str = "pc", trim: float = 1.0, net: float = 0.0) -> str:
        rates = strategies.rates(slots, prior, trim)
        facts = NodeFacts(name, name, random64(), slots, 0, 0, board, (f"node={name}",), "0")
        store.join(facts, rates, dead_s=5.0)
        store.beat(Beat(name, facts.epoch, 1, "up", rates, net, slots * prior, trim, Metrics()))
        return facts.epoch

    return do


def picks(store: RedisStore, strategy: str, count: int, *, keep: bool = False) -> Counter[str]:
    """Publish ``count`` jobs; unless ``keep``, each is dropped again at once, so that its slot is free for the next."""
    found: Counter[str] = Counter()
    for _ in range(count):
        parcel = Parcel(random64(), "0", "0", 0, "{}")
        placed = store.publish(Order("t", strategy=strategy), [parcel])[0]
        found[placed.node or "shared"] += 1
        if not keep and placed.node:
            store.drop(parcel.job_id, "0", placed.node, "CANCELLED", "test")
    return found


def test_round_robin_gives_everybody_the_same(store, join):
    for name in "abc":
        join(name, slots=len(name) + 1)

    assert picks(store, "round_robin", 30) == {"a": 10, "b": 10, "c": 10}


def test_weighted_follows_slots_times_prior(store, join):
    join("big", 4, prior=2.0)
    join("small", 2, prior=1.0)

    assert picks(store, "weighted", 50) == {"big": 40, "small": 10}


@pytest.mark.parametrize("strategy", ["round_robin", "weighted"])
def test_a_node_that_joins_late_takes_its_turn_and_not_everything(store, join, strategy):
    join("a", 4)
    join("b", 4)
    picks(store, strategy, 100)
    join("late", 4)

    found = picks(store, strategy, 30)

    assert set(found) == {"a", "b", "late"}
    assert max(found.values()) - min(found.values()) <= 1


def test_dynamic_fills_fast_slots_before_slow_ones_and_then_the_shared_queue(store, join):
    join("slow", 1, prior=0.7, board="slow")
    join("fast", 4, prior=2.0, board="fast")
    join("middle", 2, prior=1.25, board="middle")

    order = [next(iter(picks(store, "dynamic", 1, keep=True))) for _ in range(8)]

    assert order == ["fast"] * 4 + ["middle"] * 2 + ["slow", "shared"]


def test_dynamic_and_least_connections_level_equal_nodes(store, join):
    join("a", 4)
    join("b", 4)

    assert picks(store, "dynamic", 4, keep=True) == {"a": 2, "b": 2}
    assert picks(store, "least_connections", 4, keep=True) == {"a": 2, "b": 2}


def test_equal_nodes_are_drawn_by_lot_anew_at_each_beat(store, join):
    names = "abcd"
    found: Counter[str] = Counter()
    for _ in range(60):
        for name in names:
            join(name, 2)
        found += picks(store, "dynamic", 1)

    assert min(found[name] for name in names) >= 3


def test_learned_speed_outranks_the_prior_for_its_own_task_only(store, join):
    join("a", 2, board="one")
    join("b", 2, prior=1.5, board="two")
    store.set_speeds("t", {"one": 4.0, "two": 1.0})

    assert picks(store, "dynamic", 10) == {"a": 10}
    store.set_speeds("t", {"one": 1.0, "two": 1.0})
    assert picks(store, "dynamic", 10) == {"b": 10}


def test_a_trimmed_and_a_distant_node_come_last(store, join):
    join("near", 2)
    join("hot", 2, trim=0.5)
    join("far", 2, net=4.0)

    order = [next(iter(picks(store, "dynamic", 1, keep=True))) for _ in range(6)]

    assert order == ["near"] * 2 + ["hot"] * 2 + ["far"] * 2


@pytest.mark.parametrize("strategy", ["dynamic", "least_connections"])
def test_the_script_ranks_as_the_policy_does(store, join, strategy):
    own = strategies.get(strategy)
    nodes = {"a": (4, 2.0, 0.4), "b": (2, 1.25, 1.0), "c": (1, 0.7, 1.0), "d": (3, 1.0, 0.8)}
    for name, (slots, prior, trim) in nodes.items():
        join(name, slots, prior=prior, board=f"board-{name}", trim=trim)
    used = dict.fromkeys(nodes, 0)
    for _ in range(sum(slots for slots, _, _ in nodes.values())):
        free = {n: v for n, v in nodes.items() if used[n] < v[0]}
        scores = {n: own.score(used[n], v[0], strategies.rates(*v)[strategy]) for n, v in free.items()}
        best = min(scores.values())

        picked = next(iter(picks(store, strategy, 1, keep=True)))

        assert scores[picked] == pytest.approx(best, rel=1e-5)
        used[picked] += 1
