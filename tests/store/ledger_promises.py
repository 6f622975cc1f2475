"""What must hold of the ledger after each of the random steps of ``ledger_machine``. It is read in one go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis.stateful import RuleBasedStateMachine, invariant

from jetq.model.job import MOVES, TERMINAL, JobState
from jetq.model.needs import PRIORITY_STEPS
from jetq.store import keys
from jetq.store.base import Order, Parcel
from jetq.store.redis import RedisStore

SLOTS = {"a": 2, "b": 1}
CLAIMED = ("RUNNING", "FINISHING")
LIVE = ("ASSIGNED", *CLAIMED)


@dataclass(frozen=True)
class Seen:
    """The whole ledger at one moment."""

    records: dict[str, dict[str, str]]
    leases: dict[str, dict[str, str]]  # node -> job -> what it holds
    asked: dict[str, set[str]]  # node -> claimers it is to kill
    waiting: set[str]
    due: set[str]  # or to expire
    messages: set[str]  # of all lists


class Promises(RuleBasedStateMachine):
    """What a machine remembers, and what it may expect of the ledger."""

    store: RedisStore
    parcels: dict[str, tuple[Order, Parcel]]  # by job
    hands: dict[str, list[str]]  # envelopes popped, not yet claimed, by node
    claims: dict[str, list[tuple[str, str, str]]]  # id, token, claimer, by node
    before: dict[str, JobState]
    outcomes: dict[str, tuple[str, object, object]]
    lost: set[str]  # envelopes, until the leader has had its time to mend it
    torn: set[str]  # jobs whose lease was lost, until then
    vanished: set[str]  # jobs whose child died, and nobody said so, until then

    def record(self, job: str) -> dict[str, str]:
        """Return a record as it is."""
        return _words(self.store.client.hgetall(f"{self.store.prefix}job:{job}"))

    @invariant()
    def every_promise_is_kept(self) -> None:
        """Look once, in one go, and ask it all of that."""
        now = self.look()
        self.load_is_the_live_leases(now)
        self.moves_are_in_the_table_and_outcomes_stay(now)
        self.one_live_claim_a_job(now)
        self.nothing_is_forgotten(now)
        self.who_is_to_be_killed_runs(now)

    def look(self) -> Seen:
        """Read the whole ledger."""
        pipe, prefix = self.store.client.pipeline(transaction=False), self.store.prefix
        lists = [prefix + keys.with_priority(q, step) for q in self.store.queues() for step in PRIORITY_STEPS]
        for job in self.parcels:
            pipe.hgetall(f"{prefix}job:{job}")
        for node in SLOTS:
            pipe.hgetall(f"{prefix}leases:{node}").smembers(f"{prefix}cancel:{node}")
        for name in ("waiting", "due", "expiry"):
            pipe.zrange(prefix + name, 0, -1)
        for name in lists:
            pipe.lrange(name, 0, -1)
        got = iter(pipe.execute())
        records = {job: _words(next(got)) for job in self.parcels}
        nodes = {node: (_words(next(got)), {x.decode() for x in next(got)}) for node in SLOTS}
        waiting, due, expiry = ({x.decode() for x in next(got)} for _ in range(3))
        messages = {envelope.decode() for found in got for envelope in found}
        leases, asked = ({node: both[i] for node, both in nodes.items()} for i in (0, 1))
        return Seen(records, leases, asked, waiting, due | expiry, messages)

    def load_is_the_live_leases(self, now: Seen) -> None:
        """Each live job has one lease, on its node, and no node holds more than it has."""
        want: dict[str, set[str]] = {n: set() for n in SLOTS}
        for job, record in now.records.items():
            if record["state"] in LIVE:
                want[record["node"]].add(job)
        for node, slots in SLOTS.items():
            leases = now.leases[node]
            assert leases.keys() <= want[node]
            assert want[node] - leases.keys() <= self.torn
            assert sum(float(v.split()[0]) for v in leases.values()) <= slots
            assert sum(int(v.split()[1]) for v in leases.values()) <= 1
            assert sum(int(v.split()[2]) for v in leases.values()) <= 8 << 30

    def moves_are_in_the_table_and_outcomes_stay(self, now: Seen) -> None:
        """No state is reached that the table does not allow, and what ended stays as it ended."""
        for job, record in now.records.items():
            state, before = JobState(record["state"]), self.before.get(job)
            if before is not None and before != state:
                assert state in MOVES[before], f"{before} -> {state}"
            self.before[job] = state
            if state in TERMINAL:
                outcome = (state, record.get("result"), record.get("error"))
                assert self.outcomes.setdefault(job, outcome) == outcome

    def one_live_claim_a_job(self, now: Seen) -> None:
        """Of all that children believe to hold, the ledger honours one a job."""
        live: dict[str, int] = {}
        for job, token, claimer in (claim for claims in self.claims.values() for claim in claims):
            record = now.records[job]
            mine = (record["token"], record.get("claimer")) == (token, claimer)
            if record["state"] in CLAIMED and mine:
                live[job] = live.get(job, 0) + 1
        assert all(n == 1 for n in live.values())

    def nothing_is_forgotten(self, now: Seen) -> None:
        """Every job that has not ended is somewhere."""
        hands = {e for hand in self.hands.values() for e in hand}
        held = {(job, claimer) for claims in self.claims.values() for job, _, claimer in claims}
        for job, record in now.records.items():
            state = record["state"]
            assert (state == "QUEUED") == (job in now.waiting)
            if state in ("QUEUED", "ASSIGNED"):
                assert self.parcels[job][1].envelope in now.messages | hands | self.lost, record
            elif state == "WAITING":
                assert job in now.due or record.get("replaced"), record
            elif state in CLAIMED and job not in self.vanished | self.torn:
                assert (job, record["claimer"]) in held, record

    def who_is_to_be_killed_runs(self, now: Seen) -> None:
        """A node is asked to kill what runs there, and nothing else; nobody that was asked for is forgotten."""
        for node in SLOTS:
            here = {job: r for job, r in now.records.items() if r["state"] in CLAIMED and r["node"] == node}
            marked = {r["claimer"]: job for job, r in here.items() if "cancel_asked" in r or "evict" in r}
            assert now.asked[node] <= marked.keys()
            assert {marked[claimer] for claimer in marked.keys() - now.asked[node]} <= self.torn


def _words(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in found.items()}
