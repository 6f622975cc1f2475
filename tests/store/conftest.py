"""A ledger with nodes that a test moves by hand."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.needs import Needs
from jetq.policy import strategies
from jetq.store import keys
from jetq.store.base import Joining, Order, Parcel
from jetq.store.orders import digest
from jetq.store.redis import RedisStore, connect


class Cluster:
    """A store with nodes that a test moves by hand."""

    def __init__(self, url: str) -> None:
        self.store = RedisStore(connect(url), "t")
        self.epochs: dict[str, str] = {}

    def node(
        self,
        name: str,
        slots: int = 2,
        *,
        labels: tuple[str, ...] = (),
        gpu: int = 0,
        board: str = "pc",
        how: Joining = "anew",
    ) -> None:
        if how != "again":
            self.epochs[name] = ids.random64()
        epoch = self.epochs[name]
        facts = NodeFacts(name, f"id-{name}", epoch, slots, gpu, 8 << 30, board, (f"node={name}", *labels), "0")
        self.store.join(facts, strategies.rates(slots, 1.0, 1.0), dead_s=5, how=how)
        if how != "again":
            self.beat(name, slots)

    def beat(
        self,
        name: str,
        slots: int = 2,
        *,
        state: str = "up",
        seq: int = 1,
        running: tuple[tuple[str, str], ...] = (),
    ):
        rates = strategies.rates(slots, 1.0, 1.0)
        beat = Beat(name, self.epochs[name], seq, state, rates, 0.0, 1.0, 1.0, Metrics(), running)
        return self.store.beat(beat)

    def put(self, job_id: str | None = None, body: str = "b", *, generation: int = 0, pub: str | None = None, **order):
        needs = order.pop("needs", Needs())
        waits = order.pop("wait_for_node", False)
        extra = {k: order.pop(k) for k in ("delay_s", "expires_s") if k in order}
        o = Order("t.work", needs=needs, **order)
        p = Parcel(
            job_id or ids.new_job_id(),
            pub or ids.random64(),
            digest(o.name, body, needs),
            generation,
            "envelope",
            **extra,
        )
        return self.store.publish(o, [p], wait_for_node=waits)[0], p

    def claim(self, parcel: Parcel, node: str, claimer: str = "c1"):
        return self.store.claim(parcel.job_id, parcel.pub, node, self.epochs[node], claimer)

    def pop(self, queue: str, priority: int = 3) -> None:
        self.store.client.rpop(self.store.prefix + keys.with_priority(queue, priority))

    def length(self, queue: str, priority: int = 3) -> int:
        return self.store.client.llen(self.store.prefix + keys.with_priority(queue, priority))

    def state(self, parcel: Parcel) -> str:
        row = self.store.job(parcel.job_id)
        assert row is not None
        return row.state

    def used(self, name: str) -> float:
        return next(n.used for n in self.store.nodes() if n.name == name)


@pytest.fixture
def cluster(redis_url: str) -> Cluster:
    return Cluster(redis_url)
