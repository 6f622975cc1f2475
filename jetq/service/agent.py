"""The agent of a node: joins, beats, keeps its lanes, hands on what the ledger decided, and stops in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from jetq import process
from jetq.clock import Clock, boot_s
from jetq.errors import BrokerError, JetqError, UsageError
from jetq.log import Log
from jetq.model.beat import BeatReply, NodeFacts
from jetq.probe.base import Probe
from jetq.service.beats import Beater, Word
from jetq.service.drain import Drain
from jetq.service.duties import ChoreLedger, Chores, duties
from jetq.service.fence import UNPLANNED, Fence, Over, Proof
from jetq.service.jobfiles.node import JobFiles
from jetq.service.lane import KINDS, Lane, LaneCommands
from jetq.service.lanes import Lanes, union
from jetq.service.leader import Leader
from jetq.service.loop import Loop, Outage
from jetq.service.waker import Waker
from jetq.store.base import After, Delivery, Joining, NodeKeeper

#: The main loop looks at its lanes at least this often (s).
LOOK_S = 0.5
#: A call that the broker did not answer is repeated after this (s).
RETRY_S = 1.0
#: Looks at whether the broker can be reached, in the time after which a silent node is dead.
REACH = 10
#: Time between two looks at what jobs have left here (s).
SWEEP_S = 60.0
#: Lanes that run nothing get this long to end by themselves (s).
LANE_STOP_S = 3.0

_log = Log("agent")


class AgentLedger(NodeKeeper, ChoreLedger, Protocol):
    """What the agent asks of the ledger."""

    def lost(
        self, job_id: str, node: str, claimer: str | None, why: str, *, then: After = "charge", epoch: str = ""
    ) -> str:
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
        reach: Proof,
        *,
        mark: str,
        dead_s: float,
        grace_s: float,
        files: JobFiles,
        rejoins: bool = False,
        lanes: Sequence[str] = ("tasks", "processes"),
        clock: Clock = boot_s,
    ) -> None:
        """Describe a run.

        Args:
            facts: of the node, with the epoch of this run.
            ledger, delivery, probe, commands, reach: roles.
            mark: marker of this run's processes, ``KEY.RUN``; what other runs of the key left is killed first.
            dead_s: time without a beat after which a node is dead. grace_s: time for what runs at a plain stop.
            rejoins: whether the run before had to give up, through no fault of its jobs.
            lanes: names; the first makes the node ``up``.
            clock: of the boot time.
        """
        self._facts = facts
        self._ledger = ledger
        self._mark = mark
        self._dead_s = dead_s
        self._grace_s = grace_s
        self._files = files
        self._rejoins = rejoins
        self._clock = clock
        self._outage = Outage()
        self._waker = Waker()
        self._stops = 0  # how often somebody asked for the end
        self._reply: BeatReply | None = None
        self._joined: tuple[str, ...] | None = None  # names of the tasks the ledger knows of; None: not joined
        self._fence = Fence(dead_s=dead_s, clock=clock)
        self._lanes = Lanes(lanes, commands, self._fence, slots=facts.slots, mark=mark, dead_s=dead_s, clock=clock)
        self._beater = Beater(
            *(facts, ledger, probe, self._word), clock=clock, answered=self._answered, unserved=self._fence.unserved
        )
        self._drain = Drain(ledger, facts.name, facts.epoch, clock=clock)
        leader = Leader(ledger, facts.name, facts.epoch, lambda: self._lanes.running, dead_s=dead_s, clock=clock)
        chores = Chores(ledger, delivery, leader, dead_s=dead_s, clock=clock)
        self._loops = [
            *duties(self._beater, probe, leader, chores, self._outage, dead_s=dead_s),
            Loop("reach", dead_s / REACH, lambda: self._fence.heed(reach), self._outage),
            Loop("sweep", SWEEP_S, self._sweep, self._outage),
        ]

    # What signal handlers and other threads may call ----------------------------------------------------------------

    def stop(self) -> None:
        """Ask for a plain stop. Asked twice: do not wait for what runs."""
        self._stops += 1
        self.wake()

    def end_now(self) -> None:
        """End at once, and clear up: whoever guarded this agent is gone."""
        self._fence.end(Over("its guard was killed", UNPLANNED))
        self.stop()

    def wake(self) -> None:
        """Make the main loop look around now."""
        self._waker.ring()

    # The run --------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until asked to stop or refused. Returns the exit code.

        Raises:
            NameTaken: another machine is alive under this name.
            UsageError: a lane cannot load its tasks; before the first join, nobody has heard of this run then.
        """
        swept = process.sweep(self._mark.partition(".")[0], spare=self._mark)
        if swept:
            _log.warning("agent.swept", processes=len(swept))
        try:
            self._facts = replace(self._facts, door=self._files.start())
            if not self._load() or not self._insist(lambda: self._join(self._lanes.tasks)):
                return 0
            _log.info("node.joined", node=self._facts.name, slots=self._facts.slots, epoch=self._facts.epoch)
            for loop in self._loops:
                loop.start()
            self._attend()
            if not self._fence.over:
                self._stop_plainly()
            if self._lanes.fault:
                raise UsageError(self._lanes.fault)
            if over := self._fence.over:
                _log.error("node.over", node=self._facts.name, why=over.why)
            return over.code if over else 0
        finally:
            self._end()

    def _load(self) -> bool:
        """Start the lanes and wait until they have loaded their tasks. False: asked to stop before."""
        while not (self._stops or self._lanes.have_loaded):
            self._look_around()
            if self._lanes.fault:
                raise UsageError(self._lanes.fault)
            self._waker.wait(LOOK_S, self._lanes.status_fds)
        return not self._stops

    def _attend(self) -> None:
        """Keep the lanes until somebody asks for the end, a lane has a fault, or the run is over."""
        while not (self._stops or self._fence.over):
            self._look_around()
            if self._lanes.fault:
                self._stops = 1
            else:
                self._waker.wait(LOOK_S, self._lanes.status_fds)

    def _stop_plainly(self) -> None:
        """Take nothing more, wait for what runs, end the lanes, and leave; nobody is charged an attempt."""
        _log.info("node.stopping", node=self._facts.name, grace_s=self._grace_s)
        end_s = self._clock() + self._grace_s
        shown: tuple[str, ...] | None = None
        self._look_around()
        self._try(self._beater.beat)
        while self._clock() < end_s and self._stops < 2 and not self._fence.over:
            self._try(lambda: self._ledger.again(self._facts.name, self._facts.epoch))
            self._look_around()
            if (left := self._what_runs()) != shown:
                _log.info("node.waits", jobs=len(left), ids=" ".join(left[:5]))
            if not left:
                break
            shown = left
            self._waker.wait(min(LOOK_S, end_s - self._clock()), self._lanes.status_fds)
        if self._fence.over:
            return
        self._end_lanes()
        self._fence.lift()
        for loop in self._loops:
            loop.stop()
        self._try(lambda: self._ledger.leave(self._facts.name, self._facts.epoch))
        _log.info("node.left", node=self._facts.name)

    def _end_lanes(self) -> None:
        self._lanes.ask_to_stop()
        end_s = self._clock() + LANE_STOP_S
        while self._clock() < end_s and self._lanes.any_runs:
            self._waker.wait(min(LOOK_S, end_s - self._clock()), self._lanes.status_fds)
            self._lanes.hear()
        self._lanes.kill()

    def _end(self) -> None:
        """Leave nothing behind, however the run ended."""
        self._lanes.kill()
        self._try(lambda: process.sweep(self._mark))
        for loop in self._loops:
            loop.stop(within_s=0.1)
        self._files.stop()

    def _look_around(self) -> None:
        """Keep the lanes running, let the ledger know if they have loaded anew, and tell them what holds now."""
        joined = self._joined is not None
        self._lanes.keep(lambda lane: self._try(lambda: self._report(lane)), restart=not self._stops, plain=joined)
        names = self._lanes.tasks
        if self._joined not in (None, names) and self._try(lambda: self._join(names)):
            self._try(self._beater.beat)
        if self._reply is not None:
            reply = self._reply
            self._try(lambda: self._drain.follow(reply))
            takes = not self._stops and not self._beater.excluded and not self._drain.is_on
            self._lanes.tell(reply, takes=takes)

    # The ledger -----------------------------------------------------------------------------------------------------

    def _join(self, names: tuple[str, ...]) -> None:
        how: Joining = "again" if self._joined is not None else "after a fence" if self._rejoins else "anew"
        started_s = self._clock()
        self._ledger.join(self._facts, self._beater.rates(), dead_s=self._dead_s, tasks=names, how=how)
        self._fence.accepted(started_s)
        self._joined = names

    def _report(self, lane: Lane) -> None:
        """Kill what a dead lane left, then let the ledger pick again what it held."""
        lane.sweep()
        self._files.clear()
        if self._joined is None:
            return  # what the ledger has under this name is another run's
        held = [job for job in self._ledger.held(self._facts.name) if job.kind in KINDS[lane.name]]
        why, epoch = f"its lane died (exit code {lane.code})", self._facts.epoch
        for job in held:
            if job.state != "ASSIGNED":
                self._ledger.lost(job.job_id, self._facts.name, None, why, epoch=epoch)
        if held:
            self._ledger.again(self._facts.name, self._facts.epoch, "its lane died")

    def _what_runs(self) -> tuple[str, ...]:
        """Return the jobs that run by the lanes' pages, and those that the ledger says are claimed here."""
        running = tuple(entry.job_id for entry in self._lanes.running)
        try:
            held = [job.job_id for job in self._ledger.held(self._facts.name) if job.state != "ASSIGNED"]
        except BrokerError as exc:
            self._outage.found(exc)
            return union([running])
        return union([running, tuple(held)])

    def _word(self) -> Word:
        state = "stopping" if self._stops else "up" if self._lanes.are_ready else "starting"
        running = tuple((entry.job_id, entry.claimer) for entry in self._lanes.running)
        return Word(state, running, self._lanes.reserved)

    def _answered(self, reply: BeatReply, started_s: float) -> None:
        self._outage.over()
        if reply.accepted:
            self._fence.accepted(started_s)
            self._reply = reply
        else:
            self._fence.refused(reply.over)
        self.wake()

    def _sweep(self) -> None:
        self._files.sweep({entry.job_id for entry in self._lanes.running})

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
                self._waker.wait(RETRY_S)
            else:
                self._outage.over()
                return True
        return False
