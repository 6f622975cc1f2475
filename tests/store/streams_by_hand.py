"""A leader of streams, and seats on nodes, that a test moves by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jetq import ids
from jetq.model.charge import End
from jetq.model.credentials import Secret
from jetq.model.stream import StreamSpec, wish
from jetq.model.survey import Judgement
from jetq.page import Entry
from jetq.policy.streamcost import Load
from jetq.policy.streamrooms import SeatRecord, StreamRecord, load_text
from jetq.policy.streams import Step, Verb
from jetq.store.base import Placed
from jetq.store.streaming import Heard

TEMPLATE = '{"id": "@jetq-id@", "pub": "@jetq-pub@"}'


class Streams:
    """A cluster with a leader, and the seats of its streams."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self.prefix = self.store.prefix
        self.told: dict[str, int] = {}  # token -> results that were told under it
        self.epoch = ids.random64()
        self.term = self.store.lead("lead", self.epoch, lease_s=600).term

    # What is there --------------------------------------------------------------------------------------------------

    def node(self, name: str, slots: int = 4, **facts) -> None:
        self.cluster.node(name, slots, labels=("video",), **facts)
        self.store.client.sadd(f"{self.prefix}tasks:{name}", "stream.run")

    def record(self, job_id: str = "x") -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.store.client.hgetall(f"{self.prefix}job:{job_id}").items()}

    def set(self, job_id: str, **fields: str) -> None:
        self.store.client.hset(f"{self.prefix}job:{job_id}", mapping=fields)

    def view(self, job_id: str = "x") -> StreamRecord:
        return next(stream for stream in self.store.streams() if stream.id == job_id)

    def state(self, job_id: str = "x") -> str:
        return self.store.job(job_id).state

    def secrets(self, job_id: str = "x") -> dict[str, Secret]:
        kept = self.store.client.hgetall(f"{self.prefix}secret:{job_id}")
        return {k.decode(): Secret.from_json(json.loads(v)) for k, v in kept.items()}

    # A producer -----------------------------------------------------------------------------------------------------

    def submit(self, uri: str = "test:ball", job_id: str = "x", before: str | None = None, **fields) -> Placed:
        """``before``: None: what is there now."""
        spec, secrets = wish({"uri": uri, **fields})
        wanted = self.store.wanted(job_id) if before is None else None
        return self.store.submit_stream(
            job_id, spec, secrets, TEMPLATE, before=(wanted[1] if wanted else "") if before is None else before
        )

    # The leader -----------------------------------------------------------------------------------------------------

    def move(self, verb: Verb, node: str = "", view: StreamRecord | None = None, *, slots: float = 1.0) -> bool:
        view = view or self.view()
        return self.store.move_stream(self.epoch, self.term, view, Step(verb, view.id, node, f"to {verb}"), slots)

    def end(self, state: str = "SUCCEEDED", why: str = "", view: StreamRecord | None = None, result: str = "") -> bool:
        return self.store.end_stream(self.epoch, self.term, view or self.view(), state, why, result)

    def dead(self, node: str) -> None:
        judgement = Judgement(node, self.cluster.epochs[node], 1, "dead", "it was not heard of")
        assert self.store.judge(self.epoch, self.term, judgement)

    # A seat ---------------------------------------------------------------------------------------------------------

    def owner(self, job_id: str = "x") -> SeatRecord:
        found = self.view(job_id).owner
        assert found is not None
        return found

    def heir(self, job_id: str = "x") -> SeatRecord:
        found = self.view(job_id).heir
        assert found is not None
        return found

    def claim(self, seat: SeatRecord) -> str:
        pub = self.record(seat.id)["pub"]
        got = self.store.claim(seat.id, pub, seat.node, self.cluster.epochs[seat.node], f"c-{seat.id}")
        assert got.verdict == "run", got
        return got.token

    def tell(
        self,
        seat: SeatRecord,
        token: str,
        *results: int,
        first: int | None = None,
        ready: bool = True,
        load: Load | None = None,
        **telemetry,
    ) -> Heard | None:
        """``first``: the number of the first of these results; None: they follow those before."""
        seen = [json.dumps({"n": number, "by": seat.id}) for number in results]
        first = self.told.get(token, 0) if first is None else first
        self.told[token] = first + len(results)
        words = (json.dumps(telemetry), load_text(load), seen)
        return self.store.tell_seat(seat.id, token, *words, first=first, ready=ready)

    def settle(self, seat: SeatRecord, token: str, end: End) -> bool:
        text = json.dumps(end.as_json())
        return self.store.settle(seat.id, token, f"c-{seat.id}", "SUCCEEDED", result=text)

    def reassert(self, seats: Sequence[tuple[SeatRecord, str]]) -> int:
        node = seats[0][0].node
        entries = [Entry(s.id, self.record(s.id)["pub"], f"c-{s.id}", token, 1, 1) for s, token in seats]
        return self.store.reassert(node, self.cluster.epochs[node], entries)

    def run(self, node: str = "a", job_id: str = "x", **telemetry) -> tuple[SeatRecord, str]:
        """Start a stream on a node, until its frames come."""
        assert self.move("start", node, self.view(job_id))
        seat = self.owner(job_id)
        token = self.claim(seat)
        assert self.tell(seat, token, **telemetry)
        return self.owner(job_id), token

    def inherit(self, node: str = "b", *, ready: bool = True) -> tuple[SeatRecord, str]:
        """Let a node prepare to take over."""
        assert self.move("prepare", node)
        seat = self.heir()
        token = self.claim(seat)
        assert self.tell(seat, token, ready=ready)
        return self.heir(), token

    def seen(self, job_id: str = "x") -> list[tuple[int, str]]:
        return [(seen["n"], seen["by"]) for seen in self.store.results(job_id)[1]]


def spec(uri: str = "test:ball", **fields) -> StreamSpec:
    return wish({"uri": uri, **fields})[0]
