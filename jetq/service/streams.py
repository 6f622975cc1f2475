"""While this agent leads: keep each stream on exactly one live node, and end those that have come to their end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jetq.clock import Clock
from jetq.log import Log
from jetq.model.job import JobState
from jetq.policy.backoff import refused
from jetq.policy.seats import Seating, StreamNode
from jetq.policy.streamcost import cost
from jetq.policy.streamrooms import SeatRecord, StreamRecord
from jetq.policy.streams import Look, Memory, Step, look
from jetq.service.leader import Leader
from jetq.store.streaming import StreamScheduling, Weight

#: A lease follows what was measured once that differs by this share of it.
DIFFERS = 0.15

_log = Log("streams")


class Streams:
    """The leader's part for streams. ``look`` is called again and again by one thread."""

    def __init__(self, ledger: StreamScheduling, leader: Leader, *, clock: Clock) -> None:
        self._ledger = ledger
        self._leader = leader
        self._clock = clock
        self._term = 0
        self._memory = Memory()
        self._said: dict[str, str] = {}
        self._refusals: set[str] = set()  # seats whose refusal has been counted

    def look(self, moves: Mapping[str, str]) -> None:
        """Look at all streams once.

        Args:
            moves: streams that have to leave their node though that is well -> why.

        Raises:
            BrokerDown: no answer.
        """
        term = self._leader.term
        if term != self._term:
            self._term, self._memory, self._said, self._refusals = term, Memory(), {}, set()
        records = self._ledger.streams() if term else []
        if not records:
            self._memory, self._said, self._refusals = Memory(), {}, set()
            return
        live = [record for record in records if not self._ends(record)]
        nodes = self._ledger.stream_nodes(records)
        found = look(
            [r.stream(moves.get(r.owner.id, "") if r.owner else "") for r in live], nodes, self._memory, self._clock()
        )
        self._memory = found.memory
        by_id = {record.id: record for record in live}
        for step in found.steps:
            self._do(by_id[step.stream], step, nodes)
        self._weigh(live, nodes, found)

    def _ends(self, record: StreamRecord) -> bool:
        """End a stream whose seat says that it is over, or that was cancelled. True: it is no business of placement."""
        if record.cancel_asked:
            self._end(record, JobState.CANCELLED, "cancelled")
            return True
        for seat in (record.owner, record.heir):
            if seat is None or seat.end is None:
                continue
            if seat is record.owner and seat.end.how == "over":
                self._end(record, JobState.SUCCEEDED, seat.end.why, json.dumps({"why": seat.end.why}))
                return True
            if seat is record.owner and seat.end.how == "failed":
                self._end(record, JobState.FAILED, "\n".join(filter(None, (seat.end.why, seat.end.traceback))))
                return True
            if seat.end.how in ("refused", "failed"):
                self._rest(record, seat, seat.end.why)
        return False

    def _end(self, record: StreamRecord, state: JobState, why: str, result: str = "") -> None:
        if self._ledger.end_stream(self._leader.epoch, self._term, record, state.value, why, result):
            tell = _log.warning if state is JobState.FAILED else _log.info
            tell("stream.ended", stream=record.id, state=state.value, why=why.partition("\n")[0])

    def _rest(self, record: StreamRecord, seat: SeatRecord, why: str) -> None:
        """Leave a node out for a while that has refused a stream."""
        if seat.id in self._refusals:
            return
        self._refusals.add(seat.id)
        key, rests = (record.id, seat.node), self._memory.rests
        rest = refused(rests.get(key), self._clock(), f"refused it: {why}")
        self._memory = replace(self._memory, rests={**rests, key: rest})
        _log.warning("stream.refused", stream=record.id, node=seat.node, why=why)

    def _do(self, record: StreamRecord, step: Step, nodes: Sequence[StreamNode]) -> None:
        there = next((node for node in nodes if node.name == step.node), None)
        stream = record.stream()
        slots = cost(stream.load, there.machine, stream.declared).slots if there is not None else 1.0
        if step.verb == "start" and record.owner is not None and not record.owner.live:
            step = replace(step, why=f"{record.owner.node}: {_left(record.owner)}")
        if self._ledger.move_stream(self._leader.epoch, self._term, record, step, slots):
            _log.info(f"stream.{step.verb}", stream=record.id, node=step.node, why=step.why)

    def _weigh(self, records: Sequence[StreamRecord], nodes: Sequence[StreamNode], found: Look) -> None:
        """Let leases follow what was measured, and tell why streams wait; only what is new is told."""
        seating = Seating(nodes, ())
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
        said = {
            stream: why
            for stream, why in found.waiting.items()
            if self._said.get(stream) != why and reasons.get(stream) != why
        }
        if weights or said:
            self._ledger.weigh(self._leader.epoch, self._term, weights, said)
        self._said = dict(found.waiting)


def _left(seat: SeatRecord) -> str:
    """Return why a seat is none any more."""
    if seat.end is not None and seat.end.how == "stopped":
        return "stopped it"
    return seat.error or (seat.end.why if seat.end is not None else "") or "its run has ended"
