"""Producers, lanes and agents of two nodes, as random steps on a real server.

After each of them ``ledger_promises`` is asked.
"""

from __future__ import annotations

from typing import ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule

from jetq import ids
from jetq.model.beat import Beat, BeatReply, Metrics, NodeFacts
from jetq.model.needs import PRIORITY_STEPS, Needs
from jetq.policy import strategies
from jetq.store import keys
from jetq.store.base import Joining, Order, Parcel
from jetq.store.orders import digest
from jetq.store.redis import RedisStore, connect
from tests.store.ledger_promises import SLOTS, Promises

JOBS = st.sampled_from([f"job-{i}" for i in range(8)])
NODES = st.sampled_from(sorted(SLOTS))
PRIORITIES = st.sampled_from(PRIORITY_STEPS)
NEEDS = st.sampled_from([Needs(), Needs(mem_bytes=5 << 30), Needs(gpu=1), Needs(slots=2)])
STRATEGIES = st.sampled_from(["dynamic", "least_connections", "weighted", "round_robin"])
in_hand = precondition(lambda self: any(self.hands.values()))
in_claim = precondition(lambda self: any(self.claims.values()))


class LedgerMachine(Promises):
    """The producers, lanes and agents of two nodes, as the ledger sees them."""

    url: ClassVar[str]

    @initialize()
    def start(self) -> None:
        """Begin with an empty server and two nodes."""
        self.store = RedisStore(connect(self.url), "p")
        self.store.client.flushall()
        self.epochs: dict[str, str] = {}
        self.seqs = dict.fromkeys(SLOTS, 0)
        self.parcels = {}
        self.hands = {n: [] for n in SLOTS}
        self.claims = {n: [] for n in SLOTS}
        self.before = {}
        self.outcomes = {}
        self.knows: dict[str, bool] = {}
        self.zombies: list[tuple[str, str, str, str]] = []  # node, id, token, claimer: of runs that are over
        self.lost, self.torn, self.vanished = set(), set(), set()
        for node in SLOTS:
            self.join(node)

    def join(self, node: str, *, knows: bool = True, how: Joining = "anew") -> None:
        """Start the node under a new epoch, with or without the task of the jobs; or load anew under this one."""
        self.knows[node] = knows
        if how != "again":
            self.epochs[node] = ids.random64()
            self.seqs[node] = 0
        gpu = 1 if node == "a" else 0
        facts = NodeFacts(node, node, self.epochs[node], SLOTS[node], gpu, 8 << 30, "pc", (f"node={node}",), "0")
        rates = strategies.rates(SLOTS[node], 1, 1)
        self.store.join(facts, rates, dead_s=5, tasks=["p.work"] * knows, how=how)
        self.beat(node)

    def beat(self, node: str, state: str = "up") -> BeatReply:
        """Say that the node lives, and what runs there."""
        self.seqs[node] += 1
        running = tuple((job, claimer) for job, _, claimer in self.claims[node])
        reserved = tuple(envelope.split("|")[0] for envelope in self.hands[node])
        rates = strategies.rates(SLOTS[node], 1, 1)
        said = (self.seqs[node], state, rates, 0.0, 1.0, 1.0, Metrics(), running, reserved)
        return self.store.beat(Beat(node, self.epochs[node], *said))

    def is_over(self, node: str) -> bool:
        """Tell whether the leader has declared the node dead."""
        return self.node_field(node, "state") in ("gone", "dead", None)

    def node_field(self, node: str, field: str) -> str | None:
        """Return what the ledger keeps of a node."""
        kept = self.store.client.hget(f"{self.store.prefix}node:{node}", field)
        return None if kept is None else kept.decode()

    def draw_claim(self, data: st.DataObject) -> tuple[str, tuple[str, str, str]]:
        """Return one of those that children believe to hold, and its node."""
        return data.draw(st.sampled_from([(node, claim) for node in SLOTS for claim in self.claims[node]]))

    # Producers ------------------------------------------------------------------------------------------------------

    @rule(
        job=JOBS, body=st.sampled_from("xy"), priority=PRIORITIES, needs=NEEDS, strategy=STRATEGIES, later=st.booleans()
    )
    def publish(self, job: str, body: str, priority: int, needs: Needs, strategy: str, later: bool) -> None:
        """Publish an id, known or not."""
        order = Order("p.work", needs=needs, priority=priority, strategy=strategy)
        self.send(job, order, body, 0, 0.0 if later else None)

    @rule(jobs=st.sets(JOBS, min_size=3))
    def publish_some(self, jobs: set[str]) -> None:
        """Publish jobs that ask for nothing, as most do."""
        for job in sorted(jobs):
            self.send(job, Order("p.work"), "x", 0, None)

    def send(self, job: str, order: Order, body: str, generation: int, delay_s: float | None) -> None:
        """Publish, and remember the parcel if it was placed."""
        pub = ids.random64()
        parcel = Parcel(job, pub, digest(order.name, body, order.needs), generation, f"{job}|{pub}", delay_s)
        placed = self.store.publish(order, [parcel])[0]
        if placed.verdict == "placed":
            self.parcels[job] = (order, parcel)

    @rule(job=JOBS)
    def publish_again_because_the_reply_was_lost(self, job: str) -> None:
        """The same parcel again changes nothing."""
        if job in self.parcels:
            order, parcel = self.parcels[job]
            was = self.record(job)
            placed = self.store.publish(order, [parcel])[0]
            assert placed.verdict in ("same", "done", "refused")
            assert self.record(job) == was

    @in_claim
    @rule(data=st.data())
    def retry_from_a_body(self, data: st.DataObject) -> None:
        """A running body publishes its next generation."""
        _, (job, _, _) = self.draw_claim(data)
        order, parcel = self.parcels[job]
        self.send(job, order, "x", parcel.generation + 1, 0.0 if data.draw(st.booleans()) else None)

    @rule(job=JOBS)
    def cancel(self, job: str) -> None:
        """Somebody cancels."""
        if self.record(job):
            self.store.cancel(job, "changed my mind")

    @rule()
    def due(self) -> None:
        """An agent publishes what is due."""
        self.store.due()
        for ended in self.store.untold():
            self.store.told(ended.job_id)

    # Lanes ----------------------------------------------------------------------------------------------------------

    @rule(node=NODES)
    def pop(self, node: str) -> None:
        """A lane takes a message, as BRPOP over its lists would."""
        cohorts = [q for q in self.store.queues() if q.startswith("shared:")]
        for step in PRIORITY_STEPS:
            for queue in [f"node.{node}", *cohorts]:
                got = self.store.client.rpop(self.store.prefix + keys.with_priority(queue, step))
                if got:
                    self.hands[node].append(got.decode())
                    return

    @rule(node=NODES, job=JOBS)
    def duplicate(self, node: str, job: str) -> None:
        """A message arrives that was delivered before, or somewhere else."""
        if job in self.parcels:
            self.hands[node].append(self.parcels[job][1].envelope)

    @in_hand
    @rule(twice=st.booleans(), data=st.data())
    def begin(self, twice: bool, data: st.DataObject) -> None:
        """A child gets what the lane holds."""
        node, envelope = data.draw(st.sampled_from([(n, envelope) for n in SLOTS for envelope in self.hands[n]]))
        self.claim(node, envelope, twice=twice)

    @rule()
    def work(self) -> None:
        """Lanes with a free child take what there is, as they do most of the time."""
        for node in SLOTS:
            self.pop(node)
            for envelope in self.hands[node][:]:
                self.claim(node, envelope, twice=False)

    def claim(self, node: str, envelope: str, *, twice: bool) -> None:
        """A child claims; its first reply may be lost."""
        self.hands[node].remove(envelope)
        job, pub = envelope.split("|")
        if not self.knows[node]:
            self.store.misfit(job, pub, node)
            return
        claimer = f"1.{ids.random64()}"
        first = self.store.claim(job, pub, node, self.epochs[node], claimer)
        if first.why == "old epoch":
            self.lost.add(envelope)
        if twice and first.verdict != "full":
            assert self.store.claim(job, pub, node, self.epochs[node], claimer).token == first.token
        if first.verdict in ("run", "finish"):
            other = self.store.claim(job, pub, node, self.epochs[node], f"1.{ids.random64()}")
            assert other.verdict == "refused", "a second claim while the first is live"
            self.claims[node].append((job, first.token, claimer))

    @in_claim
    @rule(twice=st.booleans(), data=st.data())
    def finish(self, twice: bool, data: st.DataObject) -> None:
        """A body ends and something follows."""
        _, (job, token, claimer) = self.draw_claim(data)
        first = self.store.finish(job, token, claimer, '{"value": 1}')
        if twice:
            assert self.store.finish(job, token, claimer, '{"value": 2}') == first

    @in_claim
    @rule(twice=st.booleans(), state=st.sampled_from(["SUCCEEDED", "FAILED", "WAITING"]), data=st.data())
    def settle(self, twice: bool, state: str, data: st.DataObject) -> None:
        """A child ends its job."""
        node, claim = self.draw_claim(data)
        self.claims[node].remove(claim)
        job, token, claimer = claim
        first = self.store.settle(job, token, claimer, state, result='"r"')
        if twice:
            assert self.store.settle(job, token, claimer, state, result='"r"') == first

    @in_claim
    @rule(then=st.sampled_from(["charge", "again", "fail"]), data=st.data())
    def child_dies(self, then: str, data: st.DataObject) -> None:
        """A child is killed; its lane says so."""
        node, claim = self.draw_claim(data)
        self.claims[node].remove(claim)
        self.store.lost(claim[0], node, claim[2], "signal 9", then=then)

    @in_hand
    @rule(node=NODES)
    def put_back(self, node: str) -> None:
        """A lane returns what it did not start."""
        for envelope in self.hands[node]:
            self.store.put_back(*envelope.split("|"))
        self.hands[node] = []

    # Agents ---------------------------------------------------------------------------------------------------------

    def drop(self, node: str) -> None:
        """All that the node's lanes have in hand is gone with them, and what runs there has no right any more."""
        self.lost |= set(self.hands[node])
        self.zombies += [(node, *claim) for claim in self.claims[node]]
        self.hands[node], self.claims[node] = [], []

    @rule(node=NODES)
    def lane_dies(self, node: str) -> None:
        """The lane is killed with all its children; its agent picks again what it held."""
        self.drop(node)
        for held in self.store.held(node):
            if held.state != "ASSIGNED":
                self.store.lost(held.job_id, node, None, "lane died", epoch=self.epochs[node])
        self.store.again(node, self.epochs[node], "lane died")

    @rule(node=NODES, knows=st.booleans())
    def agent_dies_and_returns(self, node: str, knows: bool) -> None:
        """The whole node is killed and starts anew, maybe with less code; what it remembers is worth nothing."""
        self.drop(node)
        self.join(node, knows=knows)

    @precondition(lambda self: self.zombies)
    @rule(data=st.data())
    def a_run_that_is_over_speaks_up(self, data: st.DataObject) -> None:
        """A child that was frozen, or whose agent was replaced, ends its job; its agent says that its lane died."""
        node, job, token, claimer = data.draw(st.sampled_from(self.zombies))
        if job in self.torn:  # its end has not been noticed yet
            return
        was = self.record(job)
        self.store.finish(job, token, claimer, '{"value": 3}')
        self.store.settle(job, token, claimer, "SUCCEEDED", result='"late"')
        self.store.lost(job, node, claimer, "late")
        self.store.lost(job, node, None, "late", epoch="of an earlier run")
        self.store.again(node, "of an earlier run")
        self.store.evict(node, "of an earlier run", "late")
        assert self.record(job) == was

    @rule(node=NODES)
    def stop_and_start(self, node: str) -> None:
        """A plain stop hands on what was not started; then the node is back."""
        if self.beat(node, "stopping").accepted:
            self.store.again(node, self.epochs[node])
            self.put_back(node)
            self.store.leave(node, self.epochs[node])
        self.drop(node)
        self.join(node)
