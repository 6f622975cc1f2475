"""Random steps of producers, lanes, agents, people and a leader on a real server, with faults between them.

What must hold after each step is in ``ledger_promises``: no job has two live claims, load is the live leases, an
outcome never changes, every move is in the table, who is to be killed runs, and every job that has not ended is
somewhere. When the leader has had its beats, nothing is missing any more.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from jetq.errors import BrokerUnsure, NodeAlive, NoSuchNode
from jetq.model.needs import PRIORITY_STEPS
from jetq.page import Entry
from jetq.policy.healing import OLDEST, PART, Healer, part
from jetq.policy.liveness import Watch
from jetq.store import keys
from tests.store.ledger_machine import NODES, LedgerMachine, in_claim
from tests.store.ledger_promises import SLOTS

DEAD_S = 5.0


class LedMachine(LedgerMachine):
    """The cluster with a leader, people who drain nodes, and faults that only a leader can mend."""

    @initialize()
    def start(self) -> None:
        """Begin with a leader that remembers nothing."""
        super().start()
        self.term = self.store.lead("lead", "lead", lease_s=600).term
        self.watch, self.healer = Watch(DEAD_S), Healer()
        self.clock_s = 0.0
        self.silent: set[str] = set()

    # People ---------------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.drained)
    @rule(node=NODES)
    def drain(self, node: str) -> None:
        """Somebody drains a node."""
        if not self.is_forgotten(node):
            self.store.drain(node, "new kernel", grace_s=0)

    @precondition(lambda self: self.drained)
    @rule()
    def resume(self) -> None:
        """Somebody lets it work again."""
        for node in self.drained:
            self.store.resume(node)

    @property
    def drained(self) -> list[str]:
        """The nodes that somebody has drained."""
        return [node for node in SLOTS if self.node_field(node, "drain") is not None]

    @precondition(lambda self: any(self.is_over(node) for node in SLOTS))
    @rule(node=NODES)
    def forget(self, node: str) -> None:
        """A node that is dead is forgotten, one that lives is not."""
        try:
            self.store.forget(node, dead_s=DEAD_S)
        except NodeAlive:
            assert not self.is_over(node)
        except NoSuchNode:
            assert self.is_forgotten(node)

    def is_forgotten(self, node: str) -> bool:
        """Tell whether the ledger knows nothing of a node."""
        return self.node_field(node, "epoch") is None

    # Agents and lanes -----------------------------------------------------------------------------------------------

    @in_claim
    @rule(late=st.booleans(), data=st.data())
    def evict(self, late: bool, data: st.DataObject) -> None:
        """A drain's grace is over; an agent may be late with that, and the node no longer drained."""
        node, _ = self.draw_claim(data)
        if not late and not self.is_forgotten(node):
            self.store.drain(node, "new kernel", grace_s=0)
        asked = self.store.evict(node, self.epochs[node], "its node was drained")
        assert not asked or node in self.drained

    @in_claim
    @rule(node=NODES)
    def kill_what_was_asked(self, node: str) -> None:
        """A node kills what the answer to its beat names, and is charged for none that had to leave."""
        reply = self.beat(node)
        for claim in [claim for claim in self.claims[node] if claim[2] in reply.cancel]:
            self.claims[node].remove(claim)
            was = self.record(claim[0])
            self.store.lost(claim[0], node, claim[2], "signal 15")
            assert self.record(claim[0]).get("attempts") == was.get("attempts")

    @rule(node=NODES, knows=st.booleans())
    def load_anew(self, node: str, knows: bool) -> None:
        """A lane has loaded other tasks than before, while the others go on."""
        if not self.is_over(node):
            self.join(node, knows=knows, how="again")

    # Faults ---------------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def a_message_is_lost(self, data: st.DataObject) -> None:
        """Somebody takes a message out of a list."""
        queues = [q for q, count in self.store.queues().items() if count]
        if queues:
            queue = data.draw(st.sampled_from(queues))
            for step in PRIORITY_STEPS:
                got = self.store.client.rpop(self.store.prefix + keys.with_priority(queue, step))
                if got:
                    self.lost.add(got.decode())
                    return

    @in_claim
    @rule(data=st.data())
    def a_child_vanishes(self, data: st.DataObject) -> None:
        """A child is gone, and nobody says so."""
        node, claim = self.draw_claim(data)
        self.claims[node].remove(claim)
        self.vanished.add(claim[0])

    @rule(node=NODES, data=st.data())
    def a_lease_is_lost(self, node: str, data: st.DataObject) -> None:
        """An error of ours, as one of a script that fails half-way."""
        held = self.store.held(node)
        if held:
            job = data.draw(st.sampled_from(held)).job_id
            self.store.client.hdel(f"{self.store.prefix}leases:{node}", job)
            self.torn.add(job)

    @precondition(lambda self: not self.silent)
    @rule(node=NODES)
    def fall_silent(self, node: str) -> None:
        """A node does not beat any more, for now; its children run on."""
        self.silent.add(node)

    @in_claim
    @rule(data=st.data())
    def the_broker_loses_a_claim(self, data: st.DataObject) -> None:
        """It was started anew without its last writes: the claims are made again before anything else is done."""
        client, prefix = self.store.client, self.store.prefix
        live = [(n, c) for n in SLOTS for c in self.claims[n] if self.record(c[0]).get("claimer") == c[2]]
        live = [
            (n, c) for n, c in live if self.record(c[0])["token"] == c[1] and self.record(c[0])["state"] == "RUNNING"
        ]
        live = [(n, c) for n, c in live if c[0] not in self.torn]
        if not live:
            return
        node, (job, token, claimer) = data.draw(st.sampled_from(live))
        client.hset(f"{prefix}job:{job}", mapping={"state": "ASSIGNED", "token": f"{token}.before"})
        client.hdel(f"{prefix}job:{job}", "claimer", "epoch", "started_at")
        kept = client.hgetall(f"{prefix}broker")
        client.hset(f"{prefix}broker", mapping={"run_id": "another", "save": "1"})
        with pytest.raises(BrokerUnsure):
            self.store.finish(job, token, claimer, "{}")
        entry = Entry(job, self.parcels[job][1].pub, claimer, token, 1, 1)
        assert self.store.reassert(node, self.epochs[node], [entry]) == 1
        client.hset(f"{prefix}broker", mapping=kept)

    # The leader -----------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 6.0]))
    def turn(self, seconds: float) -> None:
        """Whoever is not silent beats, and the leader looks."""
        for node in SLOTS:
            if node not in self.silent:
                self.speak(node)
        self.clock_s += seconds
        survey = self.store.survey("lead", self.term, oldest=OLDEST, part=part(self.clock_s), size=PART)
        assert survey is not None
        for judgement in self.watch.look(survey, self.clock_s):
            if self.store.judge("lead", self.term, judgement) and judgement.state == "dead":
                self.drop(judgement.node)
        verdicts = self.healer.look(survey, self.clock_s)
        for verdict, state in zip(verdicts, self.store.heal("lead", self.term, verdicts), strict=True):
            if state and verdict.action == "lost":
                self.vanished.discard(verdict.job_id)

    def speak(self, node: str) -> None:
        """Beat; who is refused kills all it has and joins anew."""
        if not self.beat(node).accepted:
            self.drop(node)
            self.join(node)

    @rule()
    def the_leader_has_its_beats(self) -> None:
        """Nothing is missing when it has looked often enough."""
        self.silent = set()
        for _ in range(4):
            self.turn(6.0)
        after = ""
        while True:
            after, _ = self.store.audit("lead", self.term, after, limit=3)
            if not after:
                break
        self.store.due()
        in_hand = {envelope for hand in self.hands.values() for envelope in hand}
        heads = {envelope.split("|")[0] for envelope in in_hand}
        self.lost = {envelope for envelope in self.lost if envelope.split("|")[0] in heads}
        self.torn, self.vanished = set(), set()


@pytest.mark.timeout(300)
def test_random_sequences_keep_every_promise(clean_broker) -> None:
    LedMachine.url = clean_broker.url
    run_state_machine_as_test(
        LedMachine,
        settings=settings(
            max_examples=90, stateful_step_count=45, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
