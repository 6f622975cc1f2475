"""The agent of a node: joins, beats, keeps its lanes, hands on what the ledger decided, and stops in order."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Sequence
from typing import Protocol

from jetq import process
from jetq.clock import Clock, boot_s
from jetq.errors import BrokerError, JetqError
from jetq.log import Log
from jetq.model.beat import NodeFacts
from jetq.policy import boards, speed
from jetq.probe.base import Probe
from jetq.service.beats import Beater, Word, union
from jetq.service.lane import KINDS, Lane, LaneCommands, Phase
from jetq.service.loop import Loop, Outage
from jetq.store.base import After, BeatReply, Delivery, NodeKeeper

#: Time between two looks at due work (s), and between two slow readings and lessons (s).
DUE_S, SLOW_S = 0.5, 5.0
#: The main loop looks at its lanes at least this often (s).
LOOK_S = 0.5
#: A call that the broker did not answer is repeated after this (s).
RETRY_S = 1.0
#: Lanes that run nothing get this long to end by themselves (s).
LANE_STOP_S = 3.0
#: Jobs of the processes lane at once: the ledger is its gate, not this number.
LONG_JOBS = 256
#: Exit code of a run that has no right to go on.
UNPLANNED = 1
#: A lane that ends so has found something wrong with what it was asked to load, and said it.
ASKED_WRONGLY = 2

_log = Log("agent")


class AgentLedger(NodeKeeper, Protocol):
    """What the agent asks of the ledger."""

    def lost(self, job_id: str, node: str, claimer: str | None, why: str, *, then: After = "charge") -> str:
        """Report that what ran the job is gone."""
        ...


class Agent:
    """One run of a node, under one epoch. ``run`` belongs in the main thread; ``stop`` and ``wake`` in its signals."""

    def __init__(
        self,
        facts: NodeFacts,
        ledger: AgentLedger,
        delivery: Delivery,
        probe: Probe,
        commands: LaneCommands,
        *,
        mark: str,
        dead_s: float,
        grace_s: float,
        lanes: Sequence[str] = ("tasks", "processes"),
        clock: Clock = boot_s,
    ) -> None:
        """``mark``: marker of this run's processes, ``KEY.RUN``; what other runs of the key left is killed first."""
        self._facts = facts
        self._ledger = ledger
        self._delivery = delivery
        self._probe = probe
        self._mark = mark
        self._dead_s = dead_s
        self._grace_s = grace_s
        self._clock = clock
        self._outage = Outage()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._stops = 0  # how often somebody asked for the end
        self._orphaned = False
        self._reply: BeatReply | None = None
        self._joined: tuple[str, ...] | None = None  # names of the tasks the ledger knows of; None: not joined
        self._lanes = {name: Lane(name, commands, mark=mark, clock=clock) for name in lanes}
        self._beater = Beater(facts, ledger, probe, self._word, clock=clock, answered=self._answered)
        self._loops = [
            Loop("beat", dead_s / 5, self._beater.beat, self._outage),
            Loop("due", DUE_S, self._hand_on, self._outage),
            Loop("slow", SLOW_S, self._look_slowly, self._outage),
        ]

    # What signal handlers and other threads may call ----------------------------------------------------------------

    def stop(self) -> None:
        """Ask for a plain stop. Asked twice: do not wait for what runs."""
        self._stops += 1
        self.wake()

    def end_now(self) -> None:
        """End at once, and clear up: whoever guarded this agent is gone."""
        self._orphaned = True
        self.stop()

    def wake(self) -> None:
        """Make the main loop look around now."""
        try:
            os.write(self._wake_write, b".")
        except BlockingIOError:
            return  # it will wake anyway

    # The run --------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until asked to stop or refused. Returns the exit code.

        Raises:
            NameTaken: another machine is alive under this name.
        """
        swept = process.sweep(self._mark.partition(".")[0], spare=self._mark)
        if swept:
            _log.warning("agent.swept", processes=len(swept))
        if not self._insist(lambda: self._join(())):
            return 0
        _log.info("node.joined", node=self._facts.name, slots=self._facts.slots, epoch=self._facts.epoch)
        for lane in self._lanes.values():
            lane.start()
        for loop in self._loops:
            loop.start()
        try:
            code = self._attend()
            if code != UNPLANNED:
                self._stop_plainly()
            return UNPLANNED if self._is_over() else code
        finally:
            self._end()

    def _attend(self) -> int:
        """Keep the lanes until the end. Returns 0 asked to stop, 1 no longer wanted, 2 a lane was asked wrongly."""
        while not self._stops:
            if self._is_over():
                return UNPLANNED
            self._keep_lanes()
            if any(lane.code == ASKED_WRONGLY for lane in self._lanes.values()):
                self._stops = 1
                return ASKED_WRONGLY
            self._tell_lanes()
            self._pause(LOOK_S)
        return UNPLANNED if self._is_over() else 0

    def _stop_plainly(self) -> None:
        """Take nothing more, wait for what runs, end the lanes, and leave; nobody is charged an attempt."""
        _log.info("node.stopping", node=self._facts.name, grace_s=self._grace_s)
        end_s = self._clock() + self._grace_s
        shown: tuple[str, ...] | None = None
        self._tell_lanes()
        self._try(self._beater.beat)
        while self._clock() < end_s and self._stops < 2 and not self._is_over():
            self._try(lambda: self._ledger.again(self._facts.name, self._facts.epoch))
            self._keep_lanes()
            self._tell_lanes()
            if (left := self._what_runs()) != shown:
                _log.info("node.waits", jobs=len(left), ids=" ".join(left[:5]))
            if not left:
                break
            shown = left
            self._pause(min(LOOK_S, end_s - self._clock()))
        self._end_lanes()
        for loop in self._loops:
            loop.stop()
        self._try(lambda: self._ledger.leave(self._facts.name, self._facts.epoch))
        _log.info("node.left", node=self._facts.name)

    def _end_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.say(allow=0, cohorts=[], cancel=[], stop=True)
            lane.ask_to_stop()
        end_s = self._clock() + LANE_STOP_S
        while self._clock() < end_s and any(lane.phase is Phase.RUNS for lane in self._lanes.values()):
            self._pause(min(LOOK_S, end_s - self._clock()))
            for lane in self._lanes.values():
                lane.has_died()
        for lane in self._lanes.values():
            self._try(lane.kill)

    def _end(self) -> None:
        """Leave nothing behind, however the run ended."""
        for lane in self._lanes.values():
            self._try(lane.kill)
        self._try(lambda: process.sweep(self._mark))
        for loop in self._loops:
            loop.stop(within_s=0.1)

    # Lanes ----------------------------------------------------------------------------------------------------------

    def _keep_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.hear()
            if lane.has_died():
                _log.warning("lane.died", lane=lane.name, code=lane.code)
            if lane.phase is Phase.DIED and self._try(lambda lane=lane: self._report(lane)):  # type: ignore[misc]
                lane.rest()
            if lane.is_due() and not self._stops:
                lane.start()
        names = tuple(sorted({name for lane in self._lanes.values() for name in lane.tasks}))
        if names and names != self._joined and self._try(lambda: self._join(names)):
            self._try(self._beater.beat)

    def _report(self, lane: Lane) -> None:
        """Kill what the lane left, then let the ledger pick again what it held."""
        lane.sweep()
        held = [job for job in self._ledger.held(self._facts.name) if job.kind in KINDS[lane.name]]
        for job in held:
            if job.state != "ASSIGNED":
                self._ledger.lost(job.job_id, self._facts.name, None, f"its lane died (exit code {lane.code})")
        if held:
            self._ledger.again(self._facts.name, self._facts.epoch, "its lane died")

    def _tell_lanes(self) -> None:
        reply = self._reply
        if reply is None:
            return
        takes = not self._stops and not self._beater.excluded
        for lane in self._lanes.values():
            if lane.phase is not Phase.RUNS:
                continue
            room = LONG_JOBS if lane.name == "processes" else min(lane.ready, int(self._facts.slots - reply.long_slots))
            lane.say(
                allow=max(0, room) if takes else 0,
                cohorts=list(reply.cohorts) if lane.name == "tasks" else [],
                cancel=list(reply.cancel),
                stop=False,
            )

    def _what_runs(self) -> tuple[str, ...]:
        """Return the jobs that lanes say they run, and those that the ledger says are claimed here."""
        said = union(lane.running for lane in self._lanes.values())
        try:
            held = [job.job_id for job in self._ledger.held(self._facts.name) if job.state != "ASSIGNED"]
        except BrokerError as exc:
            self._outage.found(exc)
            return said
        return union([said, tuple(held)])

    # The ledger -----------------------------------------------------------------------------------------------------

    def _join(self, names: tuple[str, ...]) -> None:
        self._ledger.join(self._facts, self._beater.rates(), dead_s=self._dead_s, tasks=names)
        self._joined = names

    def _word(self) -> Word:
        first = next(iter(self._lanes.values()))
        up = first.ready > 0 and self._joined is not None
        state = "stopping" if self._stops else "up" if up else "starting"
        return Word(state, union(lane.running for lane in self._lanes.values()))

    def _answered(self, reply: BeatReply) -> None:
        self._outage.over()
        self._reply = reply
        self.wake()

    def _is_over(self) -> bool:
        """Tell whether this run has no right to go on: all it has is then killed at once."""
        if self._orphaned:
            _log.error("agent.orphaned", node=self._facts.name, why="its guard was killed")
        elif self._reply is not None and not self._reply.accepted:
            _log.error("node.refused", node=self._facts.name, why="another run of this node has taken over")
        else:
            return False
        return True

    def _hand_on(self) -> None:
        for ended in self._ledger.due():
            self._delivery.settle(ended)
            self._ledger.told(ended.job_id)

    def _look_slowly(self) -> None:
        """Read what takes long, and learn speeds from the runs that ended since anybody last looked."""
        self._probe.refresh()
        for name, runs in self._ledger.fresh_runs().items():
            self._ledger.set_speeds(name, speed.factors(runs, {board: boards.prior(board) for board in runs}))

    # Waiting --------------------------------------------------------------------------------------------------------

    def _pause(self, within_s: float) -> None:
        """Wait until a lane says something, somebody wakes us, or the time is over."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._wake_read, selectors.EVENT_READ)
            for lane in self._lanes.values():
                if lane.status_fd is not None:
                    waiting.register(lane.status_fd, selectors.EVENT_READ)
            waiting.select(max(0.0, within_s))
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def _try(self, call: Callable[[], object]) -> bool:
        """Call once. False: the broker is away, or a process cannot be killed; both are told."""
        try:
            call()
        except BrokerError as exc:
            self._outage.found(exc)
            return False
        except JetqError as exc:
            _log.error("agent.failed", why=exc)
            return False
        return True

    def _insist(self, call: Callable[[], object]) -> bool:
        """Call until the broker answers. False: asked to stop before."""
        while not self._stops:
            try:
                call()
            except BrokerError as exc:
                self._outage.found(exc)
                self._pause(RETRY_S)
            else:
                self._outage.over()
                return True
        return False
