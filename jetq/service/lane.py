"""One lane of a node as its agent sees it: a child process, two pipes of JSON lines, a shared page, and a backoff."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from jetq import page, process
from jetq.clock import Clock
from jetq.log import Log
from jetq.service.fence import Fence

#: A lane that died is started again after 0.2 s, then twice as long each time; after a minute of health anew (s).
BACKOFF_FIRST_S, BACKOFF_LAST_S, HEALTHY_S = 0.2, 10.0, 60.0
#: Kinds of jobs by lane.
KINDS = {"tasks": frozenset({"task"}), "processes": frozenset({"stream", "gang"}), "plain": frozenset[str]()}

_log = Log("lane")


class LaneCommands(Protocol):
    """How lanes are started."""

    def argv(self, lane: str, *, control_fd: int, status_fd: int, page_fd: int) -> list[str]:
        """Return the command line of a lane that reads and writes these fds."""
        ...

    def environ(self) -> dict[str, str]:
        """Return the environment of lanes."""
        ...


class Phase(Enum):
    """Where a lane is. A dead one is first swept and reported, then started again."""

    RUNS = "runs"
    DIED = "died"  # its processes may still be there, and the ledger does not know
    RESTS = "rests"  # until its backoff has passed


class Lane:
    """A lane and what it last said. Only the agent's main thread calls it; other threads may read the fields."""

    def __init__(self, name: str, commands: LaneCommands, fence: Fence, *, slots: int, mark: str, clock: Clock) -> None:
        """``slots``: children or threads it may have at once."""
        self.name = name
        self.phase = Phase.RESTS
        self.ready = 0  # pool children that are up
        self.reserved: tuple[str, ...] = ()  # jobs it has taken and not started
        self.busy = 0  # requests it runs, those without the ledger too
        self.tasks: tuple[str, ...] | None = None  # names of the tasks it has loaded; None: it has not said yet
        self.fault = ""  # why it cannot load them
        self.wants_plain = False  # it has loaded a task that stays out of the ledger
        self.code: int | None = None  # how it ended last
        self.status_fd: int | None = None
        self._commands = commands
        self._fence = fence
        self._slots = slots
        self._page: page.Page | None = None
        self._mark = mark
        self._clock = clock
        self._starts = 0
        self._started_s = 0.0
        self._backoff_s = BACKOFF_FIRST_S
        self._start_at_s = clock()
        self._child: process.Child | None = None
        self._control_fd: int | None = None
        self._unread = b""
        self._unsent = b""
        self._said = ""

    @property
    def mark(self) -> str:
        """The marker of all processes of its current or last run."""
        return f"{self._mark}.{self.name}{self._starts}"

    @property
    def pid(self) -> int | None:
        """The process id of its current or last run."""
        return self._child.pid if self._child else None

    @property
    def running(self) -> list[page.Entry]:
        """What its living children and threads run, or have asked to run."""
        return self._page.living(process.born) if self._page else []

    @property
    def fenced(self) -> bool:
        """Whether it ended itself because its time was over."""
        return self._page is not None and self._page.fenced_s > 0

    def silent_s(self, since_s: float) -> float:
        """Return how long its main loop has not turned, after ``since_s``; 0 before its first turn."""
        tick_s = self._page.tick_s if self._page and self.phase is Phase.RUNS else 0.0
        return max(0.0, self._clock() - max(tick_s, since_s)) if tick_s else 0.0

    def is_due(self) -> bool:
        """Tell whether it rests and its backoff has passed."""
        return self.phase is Phase.RESTS and self._clock() >= self._start_at_s

    def start(self) -> None:
        """Start it. The thread that does so must live as long as the lane may: the main thread."""
        self._starts += 1
        control_read, self._control_fd = os.pipe()
        self.status_fd, status_write = os.pipe()
        os.set_blocking(self._control_fd, False)
        os.set_blocking(self.status_fd, False)
        self._page, page_fd = page.create(self._slots)
        self._fence.cover(self.name, self._page)
        try:
            self._child = process.spawn(
                self._commands.argv(self.name, control_fd=control_read, status_fd=status_write, page_fd=page_fd),
                env={**self._commands.environ(), process.MARK: self.mark},
                pass_fds=(control_read, status_write, page_fd),
            )
        finally:
            for fd in (control_read, status_write, page_fd):
                os.close(fd)
        self._unread, self._unsent, self._said = b"", b"", ""
        self._started_s = self._clock()
        self.code = None
        self.phase = Phase.RUNS
        _log.info("lane.started", lane=self.name, pid=self._child.pid)

    def has_died(self) -> bool:
        """Notice its end. True once for each."""
        if self.phase is not Phase.RUNS or self._child is None or (code := self._child.poll()) is None:
            return False
        self._end(code)
        return True

    def sweep(self) -> None:
        """Kill whatever its last run left.

        Raises:
            JetqError: a process cannot be killed.
        """
        if self._child is not None:
            process.kill_group(self._child.pid)
        process.sweep(self.mark)

    def rest(self) -> None:
        """Set the time of the next start: soon after a healthy life, later after each early death."""
        if self._clock() - self._started_s >= HEALTHY_S:
            self._backoff_s = BACKOFF_FIRST_S
        self._start_at_s = self._clock() + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_LAST_S)
        self.phase = Phase.RESTS

    def hear(self) -> bool:
        """Take what the lane wrote. Returns whether anything it says has changed."""
        before = (self.ready, self.reserved, self.tasks, self.fault)
        while self.status_fd is not None:
            try:
                chunk = os.read(self.status_fd, 65536)
            except BlockingIOError:
                break
            if not chunk:
                os.close(self.status_fd)
                self.status_fd = None
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for line in lines:
                self._take(line)
        return before != (self.ready, self.reserved, self.tasks, self.fault)

    def say(self, **words: Any) -> None:
        """Tell the lane what holds now (allow, cohorts, cancel, stop). Said again only if it changed."""
        text = json.dumps(words)
        if text != self._said and not self._unsent:
            self._said = text
            self._unsent = text.encode() + b"\n"
        self._flush()

    def ask_to_stop(self) -> None:
        """Ask it to end once nothing runs (SIGTERM to the lane alone)."""
        if self.phase is Phase.RUNS and self._child is not None:
            self._child.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and everything below it.

        Raises:
            JetqError: a process cannot be killed.
        """
        if self.phase is Phase.RUNS and self._child is not None:
            process.kill_tree(self._child.pid)
            self._end(self._child.wait() or 0)
        self.sweep()

    def _flush(self) -> None:
        """Write what the pipe takes; a lane that does not read must not hold up the agent."""
        while self._unsent and self._control_fd is not None:
            try:
                sent = os.write(self._control_fd, self._unsent)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._unsent = b""
                return
            self._unsent = self._unsent[sent:]

    def _take(self, line: bytes) -> None:
        try:
            said: Mapping[str, Any] = json.loads(line)
            self.ready = int(said.get("ready", self.ready))
            self.reserved = tuple(str(job) for job in said.get("reserved", self.reserved))
            self.busy = int(said.get("busy", self.busy))
            if "tasks" in said:
                self.tasks = tuple(str(name) for name in said["tasks"])
            self.fault = str(said.get("fault", self.fault))
            self.wants_plain = bool(said.get("plain", self.wants_plain))
        except (ValueError, TypeError, AttributeError):
            _log.warning("lane.unreadable", lane=self.name, line=line[:200])

    def _end(self, code: int) -> None:
        self.code = code
        self.phase = Phase.DIED
        self.ready, self.reserved, self.busy = 0, (), 0
        for fd in (self.status_fd, self._control_fd):
            if fd is not None:
                os.close(fd)
        self.status_fd = self._control_fd = None
