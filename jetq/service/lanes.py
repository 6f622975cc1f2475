"""All lanes of a node: kept running, told what holds now, ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from jetq.clock import Clock
from jetq.errors import JetqError
from jetq.log import Log
from jetq.model.beat import BeatReply
from jetq.page import Entry
from jetq.service.fence import Fence
from jetq.service.lane import Lane, LaneCommands, Phase

#: Jobs of the processes lane at once: the ledger is its gate, not this number.
LONG_JOBS = 256
#: Slots of a page beyond the node's own: somebody may grow a pool by remote control.
SPARE = 32

#: A lane that does not turn for these shares of ``dead_s``, while its agent beats, gets no new work; is killed.
SILENT, HANGS = 0.5, 2.0

_log = Log("lanes")


class Lanes:
    """The first is the one that makes the node ``up``. Called by the main thread; others may read the properties."""

    def __init__(
        self,
        names: Sequence[str],
        commands: LaneCommands,
        fence: Fence,
        *,
        slots: int,
        mark: str,
        dead_s: float,
        clock: Clock,
    ) -> None:
        """``slots``: of the node; ``mark``: of the run's processes; ``dead_s``: scales when a silent lane hangs."""
        self._slots = slots
        self._fence = fence
        self._dead_s = dead_s
        self._new = partial(Lane, commands=commands, fence=fence, mark=mark, clock=clock)
        self._all = [self._make(name) for name in names]

    @property
    def are_ready(self) -> bool:
        """Whether the first lane has a child that can run something, and none is silent."""
        return self._all[0].ready > 0 and not self._silent(SILENT)

    @property
    def running(self) -> list[Entry]:
        """What runs, by the pages of the lanes."""
        return [entry for lane in self._all for entry in lane.running]

    @property
    def reserved(self) -> tuple[str, ...]:
        """The ids of all jobs that lanes say they have taken and not started, in order."""
        return union(lane.reserved for lane in self._all)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of all tasks that lanes say they have loaded, in order."""
        return union(lane.tasks or () for lane in self._all)

    @property
    def any_runs(self) -> bool:
        """Whether a lane's process is there."""
        return any(lane.phase is Phase.RUNS for lane in self._all)

    @property
    def have_loaded(self) -> bool:
        """Whether every lane of the ledger's has said which tasks it has loaded."""
        return all(lane.tasks is not None for lane in self._all if lane.name != "plain")

    @property
    def fault(self) -> str:
        """Why a lane cannot load what it shall load; "" if none has said so."""
        return next((lane.fault for lane in self._all if lane.fault), "")

    @property
    def status_fds(self) -> list[int]:
        """Readable when a lane has said something."""
        return [lane.status_fd for lane in self._all if lane.status_fd is not None]

    def hear(self) -> None:
        """Take what lanes say, and notice those that have died."""
        for lane in self._all:
            lane.hear()
            if lane.has_died():
                _log.warning("lane.fenced" if lane.fenced else "lane.died", lane=lane.name, code=lane.code)

    def keep(self, report: Callable[[Lane], bool], *, restart: bool, plain: bool) -> None:
        """Start what is due. ``report`` is asked to clear up after a dead lane, until it says that it has.

        ``plain``: whether the plain lane may start too; it takes work at once.
        """
        self.hear()
        for lane in self._silent(HANGS):
            _log.error("lane.hangs", lane=lane.name, pid=lane.pid)
            self._kill(lane)
        if any(lane.wants_plain for lane in self._all) and all(lane.name != "plain" for lane in self._all):
            self._all.append(self._make("plain"))
        for lane in self._all:
            if lane.phase is Phase.DIED and report(lane):
                lane.rest()
            if restart and lane.is_due() and (plain or lane.name != "plain"):
                lane.start()

    def tell(self, reply: BeatReply, *, takes: bool) -> None:
        """Pass on the ledger's last answer: what each lane may take, from which queues, and what it shall kill."""
        plain = sum(lane.busy for lane in self._all if lane.name == "plain")
        for lane in self._all:
            if lane.phase is Phase.RUNS:
                long = lane.name == "processes"
                room = LONG_JOBS if long else min(lane.ready, int(self._slots - reply.long_slots) - plain)
                lane.say(
                    allow=max(0, room) if takes else 0,
                    cohorts=[] if long else list(reply.cohorts),
                    cancel=list(reply.cancel),
                    stop=False,
                )

    def _make(self, name: str) -> Lane:
        return self._new(name, slots=LONG_JOBS if name == "processes" else self._slots + SPARE)

    def ask_to_stop(self) -> None:
        """Ask all to end once nothing runs."""
        for lane in self._all:
            lane.say(allow=0, cohorts=[], cancel=[], stop=True)
            lane.ask_to_stop()

    def kill(self) -> None:
        """Kill all and whatever is below them; what cannot be killed is told."""
        for lane in self._all:
            self._kill(lane)

    def _kill(self, lane: Lane) -> None:
        try:
            lane.kill()
        except JetqError as exc:
            _log.error("lane.cannot_kill", lane=lane.name, why=exc)

    def _silent(self, share: float) -> list[Lane]:
        """Return the lanes that have not turned for this share of the time after which a silent node is dead."""
        return [lane for lane in self._all if lane.silent_s(self._fence.steady_since_s) > share * self._dead_s]


def union(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the words of all parts, in order, each once."""
    return tuple(sorted({word for part in parts for word in part}))
