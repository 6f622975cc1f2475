"""Random steps of producers, seats, nodes and a leader of streams on a real server, late and repeated ones among them.

After each step: a stream has one owner or none, a lease belongs to a live seat and a live seat has one, a seat belongs
to a whole, results were told by who owned the stream then, every move is in the table. When the leader has had its
looks, each stream runs on one node, and what was cancelled is over.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from jetq.clock import ManualClock
from jetq.errors import NodeAlive, NoSuchNode
from jetq.model.charge import End
from jetq.model.job import MOVES, TERMINAL, JobState
from jetq.model.survey import Judgement
from jetq.policy.streamrooms import StreamRecord
from jetq.service.streams import Streams as Look
from tests.store.conftest import Cluster
from tests.store.streams_by_hand import Streams

STREAMS, NODES = ("x", "y"), ("a", "b", "c")
VERBS = ("start", "prepare", "prepare", "hand", "hand", "drop", "stop")
ENDS = (End("over"), End("failed", "no video"), End("refused", "not here"), End("stopped"))
LIVE = {"ASSIGNED", "RUNNING"}
STEPS = 120


class Leads:
    """Says that the leader leads."""

    def __init__(self, epoch: str, term: int) -> None:
        self.epoch, self.term = epoch, term
        self.leads = True


class Walk:
    """Two streams on three nodes, and who takes part, by dice that fall the same again for the same seed."""

    def __init__(self, url: str, seed: int) -> None:
        cluster = Cluster(url)
        cluster.store.client.flushall()
        self.dice = random.Random(seed)
        self.trail: list[str] = []
        self.streams = Streams(cluster)
        self.store = self.streams.store
        self.clock = ManualClock(1000.0)
        self.leader = Look(self.store, Leads(self.streams.epoch, self.streams.term), clock=self.clock)
        self.claims: list[tuple[str, str, str]] = []  # seat, its node, token: whoever believes to run
        self.views: list[StreamRecord] = []  # what a leader may have seen, up to now
        self.before: dict[str, JobState] = {}
        self.told: dict[str, list[int]] = {name: [] for name in STREAMS}  # by owners, as far as these know
        self.number = 0
        for node in NODES:
            self.streams.node(node)

    def go(self, steps: int) -> None:
        """Do so many steps, and look at all after each."""
        ways: dict[Callable[[], None], int] = {
            self.submit: 6,
            self.cancel: 1,
            self.move: 20,
            self.end: 4,
            self.look_now: 3,
            self.claim: 20,
            self.tell: 20,
            self.settle: 4,
            self.dies: 2,
            self.node_dies: 2,
            self.node_returns: 3,
            self.forget: 1,
            self.drain: 2,
            self.the_leader_has_its_looks: 1,
        }
        for way in self.dice.choices(list(ways), list(ways.values()), k=steps):
            self.trail.append(way.__name__)
            way()
            self.every_promise_is_kept()

    def one_in(self, count: int) -> bool:
        return self.dice.randrange(count) == 0

    # Producers ------------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        """Want a stream, in one way or another."""
        name, password = self.dice.choice(STREAMS), self.dice.choice(["***@", "geheim:one@", "geheim:two@"])
        was = self.streams.record(name).get("state")
        placed = self.streams.submit(f"rtsp://{password}cam/1", name, fps=self.dice.choice([5, 10]))
        if placed.verdict == "placed" and was is not None:
            assert JobState(was) in TERMINAL
            del self.before[name]

    def cancel(self) -> None:
        """Somebody cancels."""
        name = self.dice.choice([*STREAMS, "x.1", "y.2"])
        if self.streams.record(name):
            self.store.cancel(name, "changed my mind")

    # The leader -----------------------------------------------------------------------------------------------------

    def view(self) -> StreamRecord | None:
        """Return what a leader sees, or has seen a while ago."""
        self.views = [*self.views, *self.store.streams()][-6:]
        return self.dice.choice(self.views[:-2] if self.one_in(4) else self.views[-2:]) if self.views[2:] else None

    def move(self) -> None:
        """It does any step."""
        view, verb, node = self.view(), self.dice.choice(VERBS), self.dice.choice(NODES)
        if view is None:
            return
        self.streams.move(verb, node, view)
        if self.one_in(4):
            was = self.streams.record(view.id)
            assert not self.streams.move(verb, node, view)
            assert self.streams.record(view.id) == was

    def end(self) -> None:
        """It ends a stream whose owner has ended."""
        view = self.view()
        if view is not None and (view.cancel_asked or (view.owner is not None and not view.owner.live)):
            self.streams.end(self.dice.choice(["SUCCEEDED", "FAILED", "CANCELLED"]), "so be it", view, '"r"')

    def look_now(self) -> None:
        """It looks as it always does, and finds nothing that stands nowhere."""
        self.clock.advance(1.0)
        self.leader.look({})
        assert self.store.audit(self.streams.epoch, self.streams.term, "", limit=100)[1] == []

    # Seats ----------------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """A lane takes what lies in its list."""
        self.claim_on(self.dice.choice(NODES))

    def claim_on(self, node: str) -> None:
        got = self.store.client.rpop(f"{self.streams.prefix}processes.{node}\x06\x163")
        if got is None:
            return
        seat, pub = got.decode().split('"')[3], got.decode().split('"')[7]
        claim = self.store.claim(seat, pub, node, self.streams.cluster.epochs[node], f"c-{seat}-{pub}")
        if claim.verdict == "run":
            self.claims.append((seat, node, claim.token))

    def drawn(self, *, ends: bool = False) -> tuple[str, str, str] | None:
        """Return one of those that believe to run."""
        if not self.claims:
            return None
        claim = self.dice.choice(self.claims)
        if ends:
            self.claims.remove(claim)
        return claim

    def tell(self) -> None:
        """A seat tells a result, as one that is over may, too."""
        if claim := self.drawn():
            self.say(*claim, ready=not self.one_in(3), twice=self.one_in(3))

    def say(self, seat: str, node: str, token: str, *, ready: bool = True, twice: bool = False) -> bool:
        whole = seat.rpartition(".")[0]
        record = self.streams.record(whole)
        self.number += 1
        first = self.streams.told.get(token, 0)
        words = (seat, token, "{}", "", [f'{{"n": {self.number}}}'])
        heard = self.store.tell_seat(*words, first=first, ready=ready)
        if twice:
            again = self.store.tell_seat(*words, first=first, ready=ready)
            assert (again and again.owns) == (heard and heard.owns)
        if heard is None:
            return False
        self.streams.told[token] = first + 1
        assert heard.owns == (record["owner"] == seat)
        assert seat in (record["owner"], record.get("heir"))
        if heard.owns:
            self.told[whole].append(self.number)
        return heard.owns

    def settle(self) -> None:
        """A seat ends by itself."""
        if claim := self.drawn(ends=True):
            self.close(*claim, self.dice.choice(ENDS), twice=self.one_in(3))

    def close(self, seat: str, node: str, token: str, end: End, *, twice: bool = False) -> None:
        claimer = f"c-{seat}-{self.streams.record(seat).get('pub')}"
        for _ in range(2 if twice else 1):
            self.store.settle(seat, token, claimer, "SUCCEEDED", result=_json(end))

    def dies(self) -> None:
        """Its thread or its lane dies, and the agent says so."""
        if claim := self.drawn(ends=True):
            self.store.lost(claim[0], claim[1], None, "lane died")

    # Nodes ----------------------------------------------------------------------------------------------------------

    def node_dies(self) -> None:
        """A node is declared dead while what runs there goes on, for now."""
        node = self.dice.choice(NODES)
        if self.state_of(node) not in (None, "dead", "gone"):
            seq = int(self.field(node, "seq"))
            judgement = Judgement(node, self.streams.cluster.epochs[node], seq, "dead", "it was not heard of")
            assert self.store.judge(self.streams.epoch, self.streams.term, judgement)

    def node_returns(self) -> None:
        """A node starts anew."""
        self.streams.node(self.dice.choice(NODES))

    def forget(self) -> None:
        """A node that is dead is forgotten."""
        try:
            self.store.forget(self.dice.choice(NODES), dead_s=600.0)
        except (NodeAlive, NoSuchNode):
            return

    def drain(self) -> None:
        """A node drains, and the grace may be over."""
        node = self.dice.choice(NODES)
        if self.state_of(node) == "up":
            self.store.drain(node, "new disk", grace_s=0)
            if self.one_in(2):
                self.store.evict(node, self.streams.cluster.epochs[node], "its node drains")
            self.store.resume(node)

    def field(self, node: str, name: str) -> str | None:
        kept = self.store.client.hget(f"{self.streams.prefix}node:{node}", name)
        return None if kept is None else kept.decode()

    def state_of(self, node: str) -> str | None:
        return self.field(node, "state")

    # What holds -----------------------------------------------------------------------------------------------------

    def every_promise_is_kept(self) -> None:
        """Read all in one go, and ask it all."""
        prefix = self.streams.prefix
        keys = sorted(key.decode() for key in self.store.client.keys(f"{prefix}*"))
        jobs, nodes = (
            [key.removeprefix(prefix + kind) for key in keys if key.startswith(prefix + kind)]
            for kind in ("job:", "leases:")
        )
        pipe = self.store.client.pipeline(transaction=False)
        for name in (*(f"job:{job}" for job in jobs), *(f"leases:{node}" for node in nodes)):
            pipe.hgetall(prefix + name)
        *found, wanted_names = pipe.zrange(f"{prefix}streams", 0, -1).execute()
        words = [{k.decode(): v.decode() for k, v in one.items()} for one in found]
        records = dict(zip(jobs, words, strict=False))
        held = {(job, node) for node, leases in zip(nodes, words[len(jobs) :], strict=True) for job in leases}
        wanted = {name.decode() for name in wanted_names}
        live = {(job, r["node"]) for job, r in records.items() if "whole" in r and r["state"] in LIVE}
        assert held == live
        for job, record in records.items():
            self.moves_are_in_the_table(job, record)
            if "whole" in record:
                self.a_live_seat_is_of_use_or_asked_to_end(job, record, records)
            else:
                self.a_stream_stands_where_it_should(job, record, records, wanted)

    def moves_are_in_the_table(self, job: str, record: dict[str, str]) -> None:
        """No state is reached that the table does not allow."""
        state, before = JobState(record["state"]), self.before.get(job)
        assert before is None or before == state or state in MOVES[before], f"{job}: {before} -> {state}"
        self.before[job] = state

    def a_live_seat_is_of_use_or_asked_to_end(self, job: str, record: dict[str, str], records) -> None:
        """It is owner or heir of a stream that lives, or its node is to kill it."""
        if record["state"] not in LIVE:
            return
        whole = records[record["whole"]]
        uses = job in (whole.get("owner"), whole.get("heir")) and JobState(whole["state"]) not in TERMINAL
        assert uses or (record["state"] == "RUNNING" and "evict" in record), (record, whole)
        if "evict" in record:
            asked = self.store.client.smembers(f"{self.streams.prefix}cancel:{record['node']}")
            assert record["claimer"].encode() in asked

    def a_stream_stands_where_it_should(self, job: str, record: dict[str, str], records, wanted: set[str]) -> None:
        """It is wanted, or over; with its secret or without; and where it has an owner, that is a seat of its own."""
        over = JobState(record["state"]) in TERMINAL
        assert over != (job in wanted)
        assert (self.streams.secrets(job) != {}) == (not over)
        assert (self.store.client.ttl(f"{self.streams.prefix}job:{job}") > 0) == over
        owner, heir = record.get("owner", ""), record.get("heir", "")
        assert not owner or owner != heir
        for seat in filter(None, (owner, heir)):
            assert records[seat]["whole"] == job
        assert (record["state"] == "QUEUED") == (not owner) or over or self.changed_after_its_end(record)
        kept = [seen["n"] for seen in self.store.results(job)[1]]
        assert kept == self.told[job]

    @staticmethod
    def changed_after_its_end(record: dict[str, str]) -> bool:
        """A stream that was changed when its seat had ended: the leader has not looked yet."""
        return not record.get("owner") and record["state"] in LIVE

    def the_leader_has_its_looks(self) -> None:
        """Nodes are well, lanes take what they get: each stream runs once, and what was cancelled is over."""
        for node in NODES:
            self.streams.node(node)
        self.claims = []
        for name in STREAMS:
            if self.streams.record(name).get("state", "SUCCEEDED") not in ("SUCCEEDED", "FAILED", "CANCELLED"):
                self.streams.submit("rtsp://***@cam/1", name, fps=20)  # how a seat has ended does not count
        for _ in range(4):
            self.clock.advance(700.0)
            self.leader.look({})
            for node in NODES:
                for _ in range(4):
                    self.claim_on(node)
            asked = {claim: self.streams.record(claim[0]).get("evict") or not self.say(*claim) for claim in self.claims}
            for claim, shall_end in asked.items():
                if shall_end and self.streams.record(claim[0]).get("evict"):
                    self.claims.remove(claim)
                    self.close(*claim, End("stopped"))
        for name in STREAMS:
            record = self.streams.record(name)
            if record and JobState(record["state"]) not in TERMINAL:
                assert "cancel_asked" not in record
                assert record["state"] == "RUNNING"
                assert self.streams.owner(name).ready
        owners = [claim[0].rpartition(".")[0] for claim in self.claims if self.say(*claim)]
        assert len(owners) == len(set(owners))


def _json(end: End) -> str:
    return f'{{"how": "{end.how}", "why": "{end.why}", "traceback": ""}}'


@pytest.mark.parametrize("seed", range(12))
def test_random_sequences_keep_each_stream_with_one_owner(clean_broker, seed: int) -> None:
    walk = Walk(clean_broker.url, seed)
    try:
        walk.go(STEPS)
    except BaseException:
        print("steps:", " ".join(walk.trail))
        raise
