"""A run of a node that is over for the ledger learns why, takes nothing more, and cannot come back."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.errors import EpochOver
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.needs import Needs
from jetq.policy import strategies
from jetq.store.base import Order, Parcel
from jetq.store.orders import digest
from jetq.store.redis import RedisStore, connect

RATES = strategies.rates(1, 1.0, 1.0)


@pytest.fixture
def store(redis_url: str) -> RedisStore:
    return RedisStore(connect(redis_url), "t")


def facts(epoch: str, identity: str = "board") -> NodeFacts:
    return NodeFacts("a", identity, epoch, 1, 0, 8 << 30, "pc", ("node=a",), "0")


def beat(store: RedisStore, epoch: str, seq: int = 1, **more):
    return store.beat(Beat("a", epoch, seq, "up", RATES, 0.0, 1.0, 1.0, Metrics(), **more))


def start(store: RedisStore, epoch: str, **how) -> None:
    store.join(facts(epoch), RATES, dead_s=5, **how)
    beat(store, epoch)


def put(store: RedisStore) -> Parcel:
    parcel = Parcel(ids.new_job_id(), ids.random64(), digest("t.work", "b", Needs()), 0, "envelope")
    store.publish(Order("t.work"), [parcel])
    return parcel


def declare(store: RedisStore, state: str) -> None:
    """Leave the node as the script does that ends it."""
    store.client.hset(f"{store.prefix}node:a", "state", state)


@pytest.mark.parametrize("state", ["dead", "gone"])
def test_a_run_that_was_declared_over_is_told_so(store, state):
    start(store, "one")
    declare(store, state)

    reply = beat(store, "one", 2)

    assert (reply.accepted, reply.over) == (False, state)


def test_a_run_that_was_replaced_or_forgotten_is_told_so(store):
    start(store, "one")
    start(store, "two")
    replaced = beat(store, "one", 2)
    store.client.flushall()

    unknown = beat(store, "two", 2)

    assert (replaced.accepted, replaced.over) == (False, "replaced")
    assert (unknown.accepted, unknown.over) == (False, "unknown")


@pytest.mark.parametrize("state", ["dead", "gone"])
def test_a_run_that_is_over_claims_nothing(store, state):
    start(store, "one")
    parcel = put(store)
    declare(store, state)

    claim = store.claim(parcel.job_id, parcel.pub, "a", "one", "c")

    assert (claim.verdict, claim.why) == ("refused", "old epoch")


def test_a_run_that_is_over_cannot_join_again_with_other_tasks(store):
    start(store, "one")
    store.join(facts("one"), RATES, dead_s=5, tasks=["x"], how="again")
    declare(store, "dead")
    with pytest.raises(EpochOver):
        store.join(facts("one"), RATES, dead_s=5, tasks=["y"], how="again")
    start(store, "two")

    with pytest.raises(EpochOver):
        store.join(facts("one"), RATES, dead_s=5, tasks=["y"], how="again")

    assert store.nodes()[0].epoch == "two"


def test_another_machine_may_take_the_name_of_a_dead_node_at_once(store):
    start(store, "one")
    declare(store, "dead")

    store.join(facts("two", "another board"), RATES, dead_s=5)

    assert beat(store, "two").accepted


@pytest.mark.parametrize(("how", "attempts"), [("anew", 1), ("after a fence", 0)])
def test_what_a_run_held_is_charged_unless_the_node_had_to_give_up(store, how, attempts):
    start(store, "one")
    parcel = put(store)
    assert store.claim(parcel.job_id, parcel.pub, "a", "one", "c").verdict == "run"

    start(store, "two", how=how)

    row = store.job(parcel.job_id)
    assert row.attempts == attempts
    assert row.state != "RUNNING"


def test_a_beat_says_what_runs_and_what_is_reserved(store):
    start(store, "one")

    beat(store, "one", 2, running=(("job-1", "4711.c"),), reserved=("job-2",))

    kept = store.client.hmget(f"{store.prefix}node:a", "running", "reserved")
    assert [text.decode() for text in kept] == ['[["job-1", "4711.c"]]', '["job-2"]']
    assert store.nodes()[0].running == ["job-1"]


@pytest.mark.parametrize(("dead_s", "state"), [(5, "stale"), (20, "up")])
def test_a_node_is_stale_by_its_own_pace_of_beats(cluster, dead_s, state) -> None:
    cluster.node("a")
    key = f"{cluster.store.prefix}node:a"
    seen_s = float(cluster.store.client.hget(key, "beat_at"))

    cluster.store.client.hset(key, mapping={"dead_s": dead_s, "beat_at": seen_s - 4})

    assert [node.state for node in cluster.store.nodes()] == [state]
