"""A publish whose answer is taken later, on a real server."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.errors import PublishUnknown
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.policy import strategies
from jetq.store import keys
from jetq.store.base import Order, Parcel
from jetq.store.redis import RedisStore, connect

ORDER = Order("t.work")


def parcels(count: int) -> list[Parcel]:
    return [Parcel(ids.new_job_id(), ids.random64(), "d", 0, f"envelope {number}") for number in range(count)]


@pytest.fixture
def store(redis_url: str) -> RedisStore:
    """Give a ledger with one node of two slots."""
    made = RedisStore(connect(redis_url), "t")
    rates = strategies.rates(2, 1.0, 1.0)
    made.join(NodeFacts("a", "id-a", "e1", 2, 0, 0, "pc", (), "0"), rates, dead_s=5)
    made.beat(Beat("a", "e1", 1, "up", rates, 0.0, 1.0, 1.0, Metrics()))
    return made


def queued(store: RedisStore) -> int:
    queues = (keys.own_queue("tasks", "a"), keys.shared_queue("any"))
    return sum(store.client.llen(store.prefix + keys.with_priority(queue, 3)) for queue in queues)


def test_the_answer_comes_when_it_is_called_for(store):
    sent = parcels(3)

    answer = store.publish_ahead(ORDER, sent)

    placed = answer()
    assert [(p.job_id, p.verdict) for p in placed] == [(p.job_id, "placed") for p in sent]
    assert [p.state for p in placed] == ["ASSIGNED", "ASSIGNED", "QUEUED"]
    assert queued(store) == 3


def test_two_may_be_under_way_at_once(store):
    first, second = (store.publish_ahead(ORDER, parcels(2)) for _ in range(2))

    assert [p.verdict for p in second() + first()] == ["placed"] * 4
    assert queued(store) == 4


def test_a_server_that_has_forgotten_the_script_is_told_it_again(store):
    store.client.script_flush()

    placed = store.publish_ahead(ORDER, parcels(2))()

    assert [p.verdict for p in placed] == ["placed", "placed"]


def test_a_connection_that_breaks_before_the_answer_sends_no_second_message(store, redis_url, wait_until):
    sent = parcels(2)
    answer = RedisStore(connect(redis_url), "t").publish_ahead(ORDER, sent)
    wait_until(lambda: queued(store) == 2)

    store.client.client_kill_filter(_type="normal", skipme=True)

    assert {p.job_id for p in answer()} == {p.job_id for p in sent}
    assert queued(store) == 2


def test_a_server_that_goes_away_leaves_the_outcome_unknown(start_broker):
    broker = start_broker()
    store = RedisStore(connect(broker.url, timeout_s=0.5), "t")
    answer = store.publish_ahead(ORDER, parcels(1))
    answer()

    broker.freeze()
    late = store.publish_ahead(ORDER, parcels(1))
    with pytest.raises(PublishUnknown):
        late()
    broker.kill()
    gone = store.publish_ahead(ORDER, parcels(1))
    with pytest.raises(PublishUnknown):
        gone()
