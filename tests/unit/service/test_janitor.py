"""What the janitor removes, on a real ledger."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.model.beat import NodeFacts
from jetq.model.gang import GangSpec
from jetq.policy import strategies
from jetq.service.janitor import Janitor
from jetq.store.redis import RedisStore, connect


@pytest.fixture
def store(redis_url: str) -> RedisStore:
    return RedisStore(connect(redis_url), "t")


def mailbox(store: RedisStore, name: str, *messages: str) -> None:
    store.client.sadd(f"{store.prefix}_kombu.binding.celeryev", f"#\x06\x16\x06\x16{name}")
    if messages:
        store.client.lpush(store.prefix + name, *messages)


def test_a_mailbox_whose_next_message_lies_there_for_a_round_is_removed(store) -> None:
    janitor = Janitor(store, keep_s=3600, dead_s=5)
    mailbox(store, "celeryev.dead", "one")
    mailbox(store, "celeryev.read", "one")
    mailbox(store, "celeryev.empty")

    janitor.turn()
    store.client.rpop(store.prefix + "celeryev.read")
    mailbox(store, "celeryev.read", "two")
    mailbox(store, "celeryev.dead", "two")
    janitor.turn()

    assert list(store.mailboxes()) == ["celeryev.read"]
    assert store.client.scard(f"{store.prefix}_kombu.binding.celeryev") == 2


def test_nodes_that_have_long_been_gone_are_forgotten(store) -> None:
    for name in ("gone", "here"):
        epoch = ids.random64()
        facts = NodeFacts(name, name, epoch, 2, 0, 1 << 30, "pc", (), "0")
        store.join(facts, strategies.rates(2, 1, 1), dead_s=5)
        if name == "gone":
            store.leave(name, epoch)

    Janitor(store, keep_s=3600, dead_s=5).turn()
    assert [n.name for n in store.nodes()] == ["gone", "here"]

    Janitor(store, keep_s=-2, dead_s=5).turn()
    assert [n.name for n in store.nodes()] == ["here"]


def test_the_workdir_of_a_gang_that_waits_outlives_its_day(store) -> None:
    needed, unused = "ab" * 32, "cd" * 32
    for blob in (needed, unused):
        store.put_blob(blob, b"x")
    store.submit_gang("g", GangSpec(("true",), workdir=needed), "message")
    store.submit_gang("empty", GangSpec(("true",)), "message")
    for blob in (needed, unused):
        store.client.expire(f"{store.prefix}blob:{blob}", 100)

    Janitor(store, keep_s=3600, dead_s=5).turn()

    assert store.client.ttl(f"{store.prefix}blob:{needed}") > 3600
    assert store.client.ttl(f"{store.prefix}blob:{unused}") <= 100
