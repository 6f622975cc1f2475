"""Random sequences of the ledger's calls, with crashes and lost replies between them, on a real server.

After every step: no job has two live claims, load is the live leases, an outcome never changes, every move is in the
table, and every job that has not ended is in a list, in somebody's hand, claimed, due, or handed to another task.
"""

from __future__ import annotations

from typing import ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from jetq import ids
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.job import MOVES, TERMINAL, JobState
from jetq.model.needs import PRIORITY_STEPS, Needs
from jetq.policy import strategies
from jetq.store import keys
from jetq.store.base import Order, Parcel
from jetq.store.orders import digest
from jetq.store.redis import RedisStore, connect

SLOTS = {"a": 2, "b": 1}
JOBS = st.sampled_from([f"job-{i}" for i in range(5)])
NODES = st.sampled_from(sorted(SLOTS))
PRIORITIES = st.sampled_from(PRIORITY_STEPS)
NEEDS = st.sampled_from([Needs(), Needs(mem_bytes=5 << 30), Needs(gpu=1), Needs(slots=2)])
STRATEGIES = st.sampled_from(["dynamic", "least_connections", "weighted", "round_robin"])
LIVE = (JobState.ASSIGNED, JobState.RUNNING, JobState.FINISHING)


class LedgerMachine(RuleBasedStateMachine):
    """The producers, lanes and agents of two nodes, as the ledger sees them."""

    url: ClassVar[str]

    @initialize()
    def start(self) -> None:
        """Begin with an empty server and two nodes."""
        self.store = RedisStore(connect(self.url), "p")
        self.store.client.flushall()
        self.epochs: dict[str, str] = {}
        self.seq = 0
        self.parcels: dict[str, tuple[Order, Parcel]] = {}
        self.hands: dict[str, list[str]] = {n: [] for n in SLOTS}  # envelopes popped, not yet claimed
        self.claims: dict[str, list[tuple[str, str, str]]] = {n: [] for n in SLOTS}  # id, token, claimer
        self.before: dict[str, JobState] = {}
        self.outcomes: dict[str, tuple[str, object, object]] = {}
        self.knows: dict[str, bool] = {}
        for node in SLOTS:
            self.join(node)

    def join(self, node: str, *, knows: bool = True) -> None:
        """Start the node under a new epoch, with or without the task of the jobs."""
        self.knows[node] = knows
        self.epochs[node] = ids.random64()
        gpu = 1 if node == "a" else 0
        facts = NodeFacts(node, node, self.epochs[node], SLOTS[node], gpu, 8 << 30, "pc", (f"node={node}",), "0")
        self.store.join(facts, strategies.rates(SLOTS[node], 1, 1), dead_s=5, tasks=["p.work"] * knows)
        self.seq = 0
        self.beat(node, "up")

    def beat(self, node: str, state: str) -> None:
        """Say that the node lives."""
        self.seq += 1
        rates = strategies.rates(SLOTS[node], 1, 1)
        assert self.store.beat(Beat(node, self.epochs[node], self.seq, state, rates, 0, 1, 1, Metrics())).accepted

    # Producers ------------------------------------------------------------------------------------------------------

    @rule(
        job=JOBS, body=st.sampled_from("xy"), priority=PRIORITIES, needs=NEEDS, strategy=STRATEGIES, later=st.booleans()
    )
    def publish(self, job: str, body: str, priority: int, needs: Needs, strategy: str, later: bool) -> None:
        """Publish an id, known or not."""
        order = Order("p.work", needs=needs, priority=priority, strategy=strategy)
        self.send(job, order, body, 0, 0.0 if later else None)

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

    @rule(node=NODES, data=st.data())
    def retry_from_a_body(self, node: str, data: st.DataObject) -> None:
        """A running body publishes its next generation."""
        if self.claims[node]:
            job, _, _ = data.draw(st.sampled_from(self.claims[node]))
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

    @rule(node=NODES, twice=st.booleans(), data=st.data())
    def claim(self, node: str, twice: bool, data: st.DataObject) -> None:
        """A child claims what the lane holds; its first reply may be lost."""
        if not self.hands[node]:
            return
        envelope = data.draw(st.sampled_from(self.hands[node]))
        self.hands[node].remove(envelope)
        job, pub = envelope.split("|")
        if not self.knows[node]:
            self.store.misfit(job, pub, node)
            return
        claimer = f"1.{ids.random64()}"
        first = self.store.claim(job, pub, node, self.epochs[node], claimer)
        if twice and first.verdict != "full":
            assert self.store.claim(job, pub, node, self.epochs[node], claimer).token == first.token
        if first.verdict in ("run", "finish"):
            other = self.store.claim(job, pub, node, self.epochs[node], f"1.{ids.random64()}")
            assert other.verdict == "refused", "a second claim while the first is live"
            self.claims[node].append((job, first.token, claimer))

    @rule(node=NODES, twice=st.booleans(), data=st.data())
    def finish(self, node: str, twice: bool, data: st.DataObject) -> None:
        """A body ends and something follows."""
        if self.claims[node]:
            job, token, claimer = data.draw(st.sampled_from(self.claims[node]))
            first = self.store.finish(job, token, claimer, '{"value": 1}')
            if twice:
                assert self.store.finish(job, token, claimer, '{"value": 2}') == first

    @rule(node=NODES, twice=st.booleans(), state=st.sampled_from(["SUCCEEDED", "FAILED", "WAITING"]), data=st.data())
    def settle(self, node: str, twice: bool, state: str, data: st.DataObject) -> None:
        """A child ends its job."""
        if self.claims[node]:
            claim = data.draw(st.sampled_from(self.claims[node]))
            self.claims[node].remove(claim)
            job, token, claimer = claim
            first = self.store.settle(job, token, claimer, state, result='"r"')
            if twice:
                assert self.store.settle(job, token, claimer, state, result='"r"') == first

    @rule(node=NODES, then=st.sampled_from(["charge", "again", "fail"]), data=st.data())
    def child_dies(self, node: str, then: str, data: st.DataObject) -> None:
        """A child is killed; its lane says so."""
        if self.claims[node]:
            claim = data.draw(st.sampled_from(self.claims[node]))
            self.claims[node].remove(claim)
            self.store.lost(claim[0], node, claim[2], "signal 9", then=then)

    @rule(node=NODES)
    def put_back(self, node: str) -> None:
        """A lane returns what it did not start."""
        for envelope in self.hands[node]:
            self.store.put_back(*envelope.split("|"))
        self.hands[node] = []

    # Agents ---------------------------------------------------------------------------------------------------------

    @rule(node=NODES)
    def lane_dies(self, node: str) -> None:
        """The lane is killed with all its children; its agent picks again what it held."""
        self.put_shared_back(node)
        self.claims[node] = []
        for held in self.store.held(node):
            self.store.lost(held.job_id, node, None, "lane died")

    @rule(node=NODES, knows=st.booleans())
    def agent_dies_and_returns(self, node: str, knows: bool) -> None:
        """The whole node is killed and starts anew, maybe with less code; what it remembers is worth nothing."""
        self.put_shared_back(node)
        old = self.claims[node]
        self.claims[node] = []
        self.join(node, knows=knows)
        for job, token, claimer in old:
            assert not self.store.settle(job, token, claimer, "SUCCEEDED") or self.record(job)["state"] in TERMINAL

    def put_shared_back(self, node: str) -> None:
        """A message of a shared list in a dead hand is the healer's (a later rule of the protocol)."""
        for envelope in self.hands[node]:
            job, pub = envelope.split("|")
            if self.record(job).get("state") == "QUEUED":
                self.store.put_back(job, pub)
        self.hands[node] = []

    @rule(node=NODES)
    def stop_and_start(self, node: str) -> None:
        """A plain stop hands on what was not started; then the node is back."""
        self.beat(node, "stopping")
        self.store.again(node, self.epochs[node])
        self.put_back(node)
        self.claims[node] = []
        self.store.leave(node, self.epochs[node])
        self.join(node)

    # What must hold --------------------------------------------------------------------------------------------------

    def record(self, job: str) -> dict[str, str]:
        """Return a record as it is."""
        return {k.decode(): v.decode() for k, v in self.store.client.hgetall(f"{self.store.prefix}job:{job}").items()}

    @invariant()
    def load_is_the_live_leases(self) -> None:
        """Each live job has one lease, on its node, and no node holds more than it has."""
        want: dict[str, set[str]] = {n: set() for n in SLOTS}
        for job in self.parcels:
            record = self.record(job)
            if record["state"] in LIVE:
                want[record["node"]].add(job)
        for node, slots in SLOTS.items():
            leases = self.store.client.hgetall(f"{self.store.prefix}leases:{node}")
            assert {x.decode() for x in leases} == want[node]
            assert sum(float(v.split()[0]) for v in leases.values()) <= slots
            assert sum(int(v.split()[1]) for v in leases.values()) <= 1
            assert sum(int(v.split()[2]) for v in leases.values()) <= 8 << 30

    @invariant()
    def moves_are_in_the_table_and_outcomes_stay(self) -> None:
        """No state is reached that the table does not allow, and what ended stays as it ended."""
        for job in self.parcels:
            record = self.record(job)
            now, before = JobState(record["state"]), self.before.get(job)
            if before is not None and before != now:
                assert now in MOVES[before], f"{before} -> {now}"
            self.before[job] = now
            if now in TERMINAL:
                outcome = (now, record.get("result"), record.get("error"))
                assert self.outcomes.setdefault(job, outcome) == outcome

    @invariant()
    def one_live_claim_a_job(self) -> None:
        """Of all that children believe to hold, the ledger honours one a job."""
        live: dict[str, int] = {}
        for claims in self.claims.values():
            for job, token, claimer in claims:
                record = self.record(job)
                if record["state"] in ("RUNNING", "FINISHING") and (record["token"], record.get("claimer")) == (
                    token,
                    claimer,
                ):
                    live[job] = live.get(job, 0) + 1
        assert all(n == 1 for n in live.values())

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """Every job that has not ended is somewhere."""
        client, prefix = self.store.client, self.store.prefix
        lists = {e.decode() for q in self.store.queues() for p in PRIORITY_STEPS
                 for e in client.lrange(prefix + keys.with_priority(q, p), 0, -1)}  # fmt: skip
        hands = {e for hand in self.hands.values() for e in hand}
        waiting = {x.decode() for x in client.zrange(f"{prefix}waiting", 0, -1)}
        due = {x.decode() for key in ("due", "expiry") for x in client.zrange(prefix + key, 0, -1)}
        for job, (_, parcel) in self.parcels.items():
            record = self.record(job)
            state = record["state"]
            assert (state == "QUEUED") == (job in waiting)
            if state in ("QUEUED", "ASSIGNED"):
                assert parcel.envelope in lists or parcel.envelope in hands, record
            elif state == "WAITING":
                assert job in due or record.get("replaced"), record
            elif state in ("RUNNING", "FINISHING"):
                held = {(j, c) for claims in self.claims.values() for j, _, c in claims}
                assert (job, record["claimer"]) in held, record


@pytest.mark.timeout(300)
def test_random_sequences_keep_every_promise(clean_broker) -> None:
    LedgerMachine.url = clean_broker.url
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
