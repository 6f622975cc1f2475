"""While this agent leads: start gangs whose turn it is, follow those that run, and say of the others why they wait."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict, replace

from jetq.log import Log
from jetq.model.job import JobState
from jetq.model.members import Foreseen, GangView, Kept
from jetq.policy import gangsteps
from jetq.policy.backfill import decide
from jetq.policy.backoff import Rest, refused
from jetq.policy.gangsteps import End
from jetq.policy.outlook import outlooks
from jetq.policy.planned import planned
from jetq.policy.timetable import Reservation, Room
from jetq.policy.turns import QueuedGang
from jetq.service.leader import Leader
from jetq.store.ganging import GangScheduling

_log = Log("gangs")


class Gangs:
    """The leader's part for gangs. ``look`` is called again and again by one thread."""

    def __init__(self, ledger: GangScheduling, leader: Leader) -> None:
        self._ledger = ledger
        self._leader = leader
        self._term = 0
        self._before: tuple[Reservation, ...] = ()
        self._kept: dict[str, Kept] = {}
        self._rests: dict[str, Rest] = {}
        self._said: dict[str, tuple[float | None, str]] = {}

    @property
    def moves(self) -> dict[str, str]:
        """Streams that shall be started elsewhere -> why: they make room for a gang."""
        return {stream: f"makes room for the gang {held.gang_id}" for held in self._before for stream in held.moves}

    def look(self) -> None:
        """Look at all gangs once.

        Raises:
            BrokerDown: no answer.
        """
        term = self._leader.term
        if term != self._term:
            self._term, self._before, self._rests, self._said = term, (), {}, {}
            self._kept = {}
            if term:
                clear = [Kept(room.name) for room in self._ledger.rooms()]
                self._ledger.foresee(self._leader.epoch, term, clear, [])
        if not term:
            return
        gangs = self._ledger.gangs()
        if not gangs and not self._kept:
            return
        now_s = self._ledger.time_s()
        news = [gang.id for gang in gangs if gang.members and self._follow(gang, now_s)]
        if news:
            gangs = self._ledger.gangs()  # what has ended gives way at once, or has its next turn now
        waiting = [gang for gang in gangs if gang.state is JobState.QUEUED]
        self._schedule(waiting, [back for gang in gangs if (back := gangsteps.comes_back(gang, now_s))], now_s)

    # Those that hold nodes ------------------------------------------------------------------------------------------

    def _follow(self, gang: GangView, now_s: float) -> bool:
        """Do what follows. False: nothing does."""
        if gang.state is JobState.RUNNING:
            for node in gang.nodes:
                self._rests.pop(node, None)
        step = gangsteps.next_step(gang, now_s)
        if isinstance(step, End):
            return self._end(gang, step, now_s)
        if step is None:
            return False
        stops = self._ledger.stop_gang(self._leader.epoch, self._term, gang, step.why)
        if stops:
            _log.warning("gang.stops", gang=gang.id, why=step.why)
        return stops

    def _end(self, gang: GangView, end: End, now_s: float) -> bool:
        tally = {**asdict(end.tally), "refused": end.refused}
        done = self._ledger.end_gang(
            self._leader.epoch,
            self._term,
            gang,
            end.state,
            end.why,
            exit_code=end.exit_code,
            tail=end.tail,
            tally=tally,
            not_before_s=end.not_before_s,
            bounds=end.bounds,
        )
        if not done:
            return False
        for node, why in end.resting:
            self._rests[node] = refused(self._rests.get(node), now_s, why)
        tell = _log.info if end.state is JobState.SUCCEEDED else _log.warning
        tell(
            "gang.ended" if end.state is not JobState.QUEUED else "gang.waits_again",
            gang=gang.id,
            state=end.state.value,
            why=end.why,
        )
        return True

    # Those that wait ------------------------------------------------------------------------------------------------

    def _schedule(self, waiting: Sequence[GangView], leaving: Sequence[GangView], now_s: float) -> None:
        """Start whose turn it is, and keep room for others, also for those ``leaving`` that will come back."""
        if not waiting and not leaving:
            self._before = ()
            self._keep({}, [])
            return
        ending = {member.job_id for gang in leaving for member in gang.members}
        rooms = [_emptied(self._rested(room), ending, now_s) for room in self._ledger.rooms()]
        queue = [queued(gang) for gang in (*waiting, *leaving)]
        decision = decide(queue, rooms, now_s, before=self._before)
        self._before = decision.reservations
        views = {gang.id: gang for gang in waiting}
        soon: dict[str, Kept] = {}
        for start in decision.starts:
            gang = views.get(start.gang_id)
            if gang is None:
                needs = next(back for back in leaving if back.id == start.gang_id).spec.needs
                soon |= {node: Kept(node, needs.slots, needs.gpu, needs.mem_bytes) for node in start.nodes}
                continue
            why = f"{len(start.nodes)} nodes are free for it"
            no = self._ledger.reserve(self._leader.epoch, self._term, gang, start.nodes, why)
            if not no:
                _log.info("gang.reserved", gang=gang.id, nodes=" ".join(start.nodes), waited_s=now_s - gang.submitted_s)
            elif no != "gone":
                _log.info("gang.not_reserved", gang=gang.id, node=no)  # somebody was faster: the next turn knows
        said = outlooks(decision, queue, rooms, now_s)
        kept = {
            node: Kept(node, p.slots, p.gpu, p.mem_bytes, p.start_s or 0.0)
            for node, p in planned(decision.reservations).items()
        }
        said = {gang: outlook for gang, outlook in said.items() if gang in views}
        self._keep(soon | kept, [Foreseen(gang, outlook.expected_s, outlook.why) for gang, outlook in said.items()])

    def _keep(self, kept: dict[str, Kept], said: list[Foreseen]) -> None:
        """Tell the ledger what is kept and said, where it is not what was told last; a node that rejoins forgets it."""
        news = [f for f in said if self._said.get(f.gang_id) != (f.expected_s, f.why)]
        freed = [Kept(node) for node in self._kept if node not in kept]
        if news or freed or kept:
            self._ledger.foresee(self._leader.epoch, self._term, [*kept.values(), *freed], news)
        self._kept = kept
        self._said = {f.gang_id: (f.expected_s, f.why) for f in said}

    def _rested(self, room: Room) -> Room:
        rest = self._rests.get(room.name)
        return room if rest is None else replace(room, rests_until_s=rest.until_s)


def _emptied(room: Room, ending: Set[str], now_s: float) -> Room:
    """Return a node as it is once these jobs have ended, which they are about to."""
    if ending.isdisjoint(hold.job_id for hold in room.holds):
        return room
    holds = (replace(hold, ends_s=now_s) if hold.job_id in ending else hold for hold in room.holds)
    return replace(room, holds=tuple(holds))


def queued(gang: GangView) -> QueuedGang:
    """Return a gang that waits as its turn is decided by."""
    asked = QueuedGang.of(
        gang.id,
        gang.spec,
        submitted_s=gang.submitted_s,
        runs=gang.runs_s,
        over_streams=gang.over_streams,
        not_before_s=gang.not_before_s,
    )
    return replace(asked, least=gang.least, most=gang.most)
