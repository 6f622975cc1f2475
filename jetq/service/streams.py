"""While this agent leads: keep each stream on exactly one live node, and end those that have come to their end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jetq.clock import Clock
from jetq.log import Log
from jetq.model.job import JobState
from jetq.policy.backoff import refused
from jetq.policy.seats import Seating
from jetq.policy.streamrooms import SeatRecord, StreamRecord
from jetq.policy.streams import Look, Memory, Step, look
from jetq.service.leader import Leader
from jetq.store.streaming import StreamScheduling, Weight

#: A lease follows what was measured once that differs by this share of it.
DIFFERS = 0.15
#: Nodes that start together (after a power cut, a `jetq down`) have so long to come (s): the first would get it all.
SETTLES_S = 5.0

_log = Log("streams")


class Streams:
    """The leader's part for streams. ``look`` is called again and again by one thread."""

    def __init__(self, ledger: StreamScheduling, leader: Leader, *, clock: Clock) -> None:
        self._ledger = ledger
        self._leader = leader
        self._clock = clock
        self._began_s = clock()  # of this agent
        self._term = 0
        self._orphans: frozenset[str] | None = None  # what nobody had at this term's first look; None: not looked yet
        self._memory = Memory()
        self._failures: set[str] = set()  # seats whose failure has been counted
        self._since_s: dict[str, float] = {}  # heir -> when this leader saw it first: no two clocks are compared

    def look(self, moves: Mapping[str, str]) -> None:
        """Look at all streams once.

        Args:
            moves: streams that have to leave their node though that is well -> why.

        Raises:
            BrokerDown: no answer.
        """
        term = self._leader.term
        if term != self._term:
            self._term, self._orphans = term, None
            self._forget()
        records = self._ledger.streams() if term else []
        if not records:
            self._forget()
            return
        live = [self._dated(r) for r in records if not (self._ends(r) or self._comes_later(r, records))]
        nodes = self._ledger.stream_nodes(live)
        found = look([r.stream(moves.get(r.id, "")) for r in live], nodes, self._memory, self._clock())
        self._memory = found.memory
        there = {seat.id for record in live for seat in (record.owner, record.heir) if seat is not None}
        self._failures &= there
        self._since_s = {seat: since_s for seat, since_s in self._since_s.items() if seat in there}
        by_id, seating = {record.id: record for record in live}, Seating(nodes, ())
        for step in found.steps:
            self._do(by_id[step.stream], step, seating)
        for stream in found.waiting:
            self._vacate(by_id[stream], seating)
        self._weigh(live, seating, found)

    def _comes_later(self, record: StreamRecord, records: Sequence[StreamRecord]) -> bool:
        """Tell whether a stream waits for nodes that start together with this one."""
        if self._orphans is None:
            self._orphans = frozenset(r.id for r in records if r.ran and not _live(r))
        return self._clock() - self._began_s < SETTLES_S and record.id in self._orphans and not _live(record)

    def _forget(self) -> None:
        self._memory, self._failures, self._since_s = Memory(), set(), {}

    def _dated(self, record: StreamRecord) -> StreamRecord:
        """Return a stream whose heir is as old as this leader knows it."""
        if record.heir is None:
            return record
        since_s = self._since_s.setdefault(record.heir.id, self._clock())
        return replace(record, heir=replace(record.heir, since_s=since_s))

    def _ends(self, record: StreamRecord) -> bool:
        """End a stream whose seat says that it is over, or that was cancelled. True: it is no business of placement."""
        if record.cancel_asked:
            self._end(record, JobState.CANCELLED, "cancelled")
            return True
        end = record.owner.end if record.owner is not None else None
        if end is not None and end.how == "over":
            self._end(record, JobState.SUCCEEDED, end.why, json.dumps({"why": end.why}))
            return True
        if end is not None and end.how == "failed":
            self._end(record, JobState.FAILED, "\n".join(filter(None, (end.why, end.traceback))))
            return True
        for seat in (record.owner, record.heir):
            if seat is not None and (why := _why_rest(seat)):
                self._rest(record, seat, why)
        return False

    def _end(self, record: StreamRecord, state: JobState, why: str, result: str = "") -> None:
        if self._ledger.end_stream(self._leader.epoch, self._term, record, state.value, why, result):
            tell = _log.warning if state is JobState.FAILED else _log.info
            tell("stream.ended", stream=record.id, state=state.value, why=why.partition("\n")[0])

    def _rest(self, record: StreamRecord, seat: SeatRecord, why: str) -> None:
        """Leave a node out for a while on which a stream cannot run."""
        if seat.id in self._failures:
            return
        self._failures.add(seat.id)
        key, rests = (record.id, seat.node), self._memory.rests
        self._memory = replace(self._memory, rests={**rests, key: refused(rests.get(key), self._clock(), why)})
        _log.warning("stream.rests", stream=record.id, node=seat.node, why=why)

    def _do(self, record: StreamRecord, step: Step, seating: Seating) -> None:
        slots = seating.cost(record.stream(), step.node).slots if step.verb in ("start", "prepare") else 0.0
        if step.verb == "start" and record.owner is not None and not record.owner.live:
            step = replace(step, why=f"{record.owner.node}: {_left(record.owner)}")
        if self._ledger.move_stream(self._leader.epoch, self._term, record, step, slots):
            _log.info(f"stream.{step.verb}", stream=record.id, node=step.node, why=step.why)

    def _vacate(self, record: StreamRecord, seating: Seating) -> None:
        """Let a stream wait whose owner is gone while no node can take it: it does not look as if it ran."""
        owner = record.owner
        if owner is None or owner.live or (record.heir is not None and record.heir.live):
            return
        self._do(record, Step("stop", record.id, owner.node, _left(owner)), seating)

    def _weigh(self, records: Sequence[StreamRecord], seating: Seating, found: Look) -> None:
        """Let leases follow what was measured, and tell why streams wait; only what is new is told."""
        weights = []
        for record in records:
            stream = record.stream()
            for seat in (record.owner, record.heir):
                if seat is None or not seat.live or seat.node not in seating.nodes:
                    continue
                slots = seating.cost(stream, seat.node).slots
                if abs(slots - seat.slots) > DIFFERS * seat.slots:
                    weights.append(Weight(seat.id, seat.node, record.spec.needs(slots)))
        reasons = {record.id: record.reason for record in records}
        said = {stream: why for stream, why in found.waiting.items() if reasons[stream] != why}
        if weights or said:
            self._ledger.weigh(self._leader.epoch, self._term, weights, said)


def _why_rest(seat: SeatRecord) -> str:
    """Return why a stream had better not come to this node again at once, "" if it may."""
    if seat.end is not None:
        return f"refused it: {seat.end.why}" if seat.end.how in ("refused", "failed") else ""
    failed = seat.state is JobState.FAILED and not seat.lost
    return f"could not run it: {seat.error}" if failed or seat.state is JobState.SUCCEEDED else ""


def _left(seat: SeatRecord) -> str:
    """Return why a seat is none any more."""
    if seat.end is not None and seat.end.how == "stopped":
        return "stopped it"
    return seat.error or (seat.end.why if seat.end is not None else "") or "its run has ended"


def _live(record: StreamRecord) -> bool:
    return any(seat is not None and seat.live for seat in (record.owner, record.heir))
