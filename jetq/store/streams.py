"""The ledger's part for streams: what is wanted, where it runs, and what it saw. Part of ``RedisStore``."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, cast

from jetq.errors import BrokerUnsure, NoSuchJob, PublishRefused, UsageError
from jetq.model.charge import SEAT_TASK, Charge, secrets_as_text, secrets_of
from jetq.model.stream import Secrets, StreamSpec
from jetq.policy.seats import StreamNode
from jetq.policy.streamrooms import (
    SEAT_FIELDS,
    STREAM_FIELDS,
    SeatRecord,
    StreamRecord,
    ending_record,
    seat_record,
    stream_node,
    stream_record,
)
from jetq.policy.streams import Step
from jetq.store import orders
from jetq.store.base import Placed
from jetq.store.leading import seed
from jetq.store.link import Link, fields_of, text
from jetq.store.streaming import Heard, Seen, Weight

#: Results of a stream that are kept, and of one whose results hold pictures.
RESULTS, PICTURES = 1000, 50


class StreamSide(Link):
    """The roles of ``store.streaming``, and what a producer asks."""

    # A producer -----------------------------------------------------------------------------------------------------

    def submit_stream(
        self, job_id: str, spec: StreamSpec, secrets: Secrets, template: str, *, before: str = ""
    ) -> Placed:
        """Want a stream, or want it otherwise.

        Args:
            secrets: of its addresses; those of an address that hides some, and has none here, stay as they are.
            template: the seats' message, with ``@jetq-id@`` and ``@jetq-pub@`` where each has its own.
            before: the digest of the spec that this one is to change (``stream_digest``); "": it is new.
        """
        plain = json.dumps(spec.as_json(), sort_keys=True)
        got = self._run(
            "submit_stream",
            *(
                job_id,
                orders.digest(spec.uri, plain, spec.needs(spec.cost or 1.0)),
                spec.uri,
                3,
                plain,
                template,
                before,
            ),
            *(word for pair in secrets_as_text(spec, secrets).items() for word in pair),
        )
        verdict, state, why = text(got).split("\t")
        return Placed(job_id, cast(Any, verdict), state, None, why)

    def wanted(self, job_id: str) -> tuple[StreamSpec, str] | None:
        """Return what a stream was asked for as, and the digest of that; None: no live stream has this id.

        Raises:
            PublishRefused: other work has it.
        """
        record = self._hash(f"job:{job_id}")
        if record and (record.get("kind") != "stream" or "whole" in record):
            raise PublishRefused(
                job_id, f"the id is in use by other work ({record.get('whole') or record.get('name')})"
            )
        if not record or "finished_at" in record:
            return None
        return StreamSpec.from_json(json.loads(record["spec"])), record["digest"]

    def stream_ids(self) -> list[str]:
        """Return the ids of all streams that have not ended, the oldest first."""
        return [text(job) for job in self._read("ZRANGE", f"{self.prefix}streams", 0, -1)]

    def results(self, job_id: str, after: str = "", limit: int = 500) -> tuple[str, list[Seen]]:
        """Return what a stream has seen since, and the place to go on from ("": the oldest that is kept)."""
        begin = f"({after}" if after else "-"
        rows = self._read("XRANGE", f"{self.prefix}results:{job_id}", begin, "+", "COUNT", limit)
        seen = []
        for entry, pairs in rows or ():
            after = text(entry)
            seen.append(cast(Seen, {**json.loads(fields_of(pairs)["r"]), "place": after}))
        return after, seen

    def last_result(self, job_id: str) -> str:
        """Return the place of the newest result, "" where there is none: who goes on from it sees new ones only."""
        rows = self._read("XREVRANGE", f"{self.prefix}results:{job_id}", "+", "-", "COUNT", 1)
        return text(rows[0][0]) if rows else ""

    # The leader -----------------------------------------------------------------------------------------------------

    def streams(self, *, cancels: bool = True) -> list[StreamRecord]:
        """Return all streams that have not ended.

        Args:
            cancels: those that this version cannot read, and so nobody could keep.
        """
        names = self.stream_ids()
        if not names:
            return []
        records = self._records(names, STREAM_FIELDS)
        seats = [record.get(part, "") for record in records.values() for part in ("owner", "heir")]
        held = self._records([seat for seat in seats if seat], SEAT_FIELDS)
        found = []
        for job, record in records.items():
            if not record.get("spec"):
                continue
            owner, heir = (
                seat_record(record[part], held[record[part]]) if record.get(part) else None
                for part in ("owner", "heir")
            )
            try:
                found.append(stream_record(job, record, owner, heir))
            except (
                UsageError,
                TypeError,
                ValueError,
                RecursionError,
            ) as exc:  # of another version; it holds up no other
                if record.get("cancel_asked"):
                    found.append(ending_record(job, record, owner, heir))
                elif cancels:
                    why = f"this version of jetq cannot read what it asks for: {exc}"
                    self._run("cancel", job, why, *seed(), self._ttl_s)
        return found

    def stream_nodes(self, streams: Sequence[StreamRecord]) -> list[StreamNode]:
        """Return the nodes that are there, as placement sees them."""
        seats: list[SeatRecord] = [s for r in streams for s in (r.owner, r.heir) if s is not None and s.live]
        names = self._names()
        kinds = (("HGETALL", "node:{}"), ("HGETALL", "leases:{}"), ("SISMEMBER", "tasks:{}", SEAT_TASK))
        asked = [(kind[0], self.prefix + kind[1].format(name), *kind[2:]) for name in names for kind in kinds]
        found = self._read_all(*asked) if asked else []
        nodes = []
        for i, name in enumerate(names):
            here = [seat for seat in seats if seat.node == name]
            node = stream_node(
                name,
                fields_of(found[3 * i]),
                fields_of(found[3 * i + 1]),
                seats=[seat.id for seat in here],
                knows=bool(found[3 * i + 2]),
                hot=any(seat.hot for seat in here),
            )
            if node is not None:
                nodes.append(node)
        return nodes

    def move_stream(self, epoch: str, term: int, stream: StreamRecord, step: Step, slots: float) -> bool:
        """Do one step with a stream. False: it is not as it was when that was decided, or the term is over.

        ``slots``: what a new seat costs; 0: the step makes none.
        """
        lease = orders.lease(stream.spec.needs(slots), "stream") if slots else ""
        words = (step.verb, step.node, step.why, lease, *seed(), self._ttl_s)
        return bool(self._run("move_stream", epoch, term, stream.id, stream.turn, *words))

    def end_stream(self, epoch: str, term: int, stream: StreamRecord, state: str, why: str, result: str = "") -> bool:
        """End a stream. False: a seat of it still runs (it was asked to end), or the term is over."""
        words = (state, why, result, random.random(), self._ttl_s)
        return bool(self._run("end_stream", epoch, term, stream.id, stream.turn, *words))

    def weigh(self, epoch: str, term: int, weights: Sequence[Weight], said: Mapping[str, str]) -> bool:
        """Let seats hold what they cost, and say why streams wait."""
        words = [w for x in weights for w in (x.seat, x.node, orders.lease(x.needs, "stream"))]
        words += [word for stream, why in said.items() for word in (stream, why)]
        return bool(self._run("weigh", epoch, term, random.random(), len(weights), *words))

    # A seat ---------------------------------------------------------------------------------------------------------

    def charge(self, seat_id: str) -> Charge:
        """Return what a seat is to run.

        Raises:
            NoSuchJob: it is no seat of a stream, or that is forgotten.
        """
        mine = self._hash(f"job:{seat_id}")
        stream_id = mine.get("whole", "")
        (got, secrets, board) = self._read_all(
            ("HGETALL", f"{self.prefix}job:{stream_id}"),
            ("HGETALL", f"{self.prefix}secret:{stream_id}"),
            ("HGET", f"{self.prefix}node:{mine.get('node', '')}", "board"),
        )
        record = fields_of(got)
        if not stream_id or not record.get("spec"):
            raise NoSuchJob(stream_id or seat_id)
        return Charge(
            stream_id,
            int(mine["index"]),
            int(record["version"]),
            StreamSpec.from_json(json.loads(record["spec"])),
            secrets_of(fields_of(secrets)),
            text(board),
        )

    def tell_seat(
        self, seat_id: str, token: str, telemetry: str, load: str, results: Sequence[str], *, first: int, ready: bool
    ) -> Heard | None:
        """Say how a seat is, and what it saw. None: its stream goes on without it.

        Args:
            telemetry: JSON. load: JSON (``policy.streamrooms.load_text``), "" where it is not known.
            results: JSON each, oldest first; they are kept where this seat owns the stream.
            first: the number of the first of them, counted from 0: who gets no answer tells them again.
            ready: its frames come.

        Raises:
            BrokerUnsure: the server was started anew; ask again in a moment.
        """
        most = PICTURES if any('"jpeg"' in result for result in results) else RESULTS
        got = self._run("tell_seat", seat_id, token, "1" if ready else "", telemetry, load, most, first, *results)
        if int(got[0]) == -2:
            raise BrokerUnsure
        if int(got[0]) < 0:
            return None
        return Heard(bool(text(got[1])), int(got[2] or 0), json.loads(text(got[3]) or "{}"))

    def _records(self, job_ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return what records have of these fields."""
        asked = [("HMGET", f"{self.prefix}job:{job}", *fields) for job in job_ids]
        found = self._read_all(*asked) if asked else []
        return {
            job: {name: text(value) for name, value in zip(fields, got, strict=True) if value is not None}
            for job, got in zip(job_ids, found, strict=True)
        }
