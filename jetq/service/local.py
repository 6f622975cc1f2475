"""Keep the processes of a `jetq up` alive (broker, nodes, web page) and stop them in the right order."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jetq import process
from jetq.broker import EmbeddedServer
from jetq.errors import BrokerError, JetqError, UsageError
from jetq.store.base import Reader

#: Time between two looks at the children (s).
LOOK_S = 0.1
#: A child that died is started again after 0.2 s, then twice as long each time; after a minute of health anew (s).
BACKOFF_FIRST_S, BACKOFF_LAST_S, HEALTHY_S = 0.2, 10.0, 60.0
#: A node that dies so often before it was ever up will not come up.
STILLBORN = 3
#: States of a node that has come up; who was drained before stays so.
_THERE = frozenset({"up", "draining", "drained"})
#: Time for a node that was told to stop, on top of its grace (s).
STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class Launch:
    """How one child is started."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path


class Kept:
    """One child that is started again when it dies."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.child: process.Child | None = None
        self.deaths = 0  # in a row
        self.last_code: int | None = None
        self._since_s = 0.0
        self._next_s: float | None = None  # None: it was not asked for yet

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self.child.pid if self.child else None

    def start(self, *, fresh_log: bool = False) -> None:
        """Start it; it dies with this thread."""
        with self.launch.log.open("wb" if fresh_log else "ab") as log:
            self.child = process.spawn(self.launch.argv, env=self.launch.env, stdout=log, stderr=log)
        self._since_s = time.monotonic()

    def look(self) -> str | None:
        """Notice a death, or start it again when its time has come. Returns what is to be told."""
        now_s = time.monotonic()
        if self.child is None:
            if self._next_s is not None and now_s >= self._next_s:
                self.start()
            return None
        self.last_code = self.child.poll()
        if self.last_code is None:
            return None
        self.child = None
        self.deaths = 1 if now_s - self._since_s > HEALTHY_S else self.deaths + 1
        wait_s = min(BACKOFF_FIRST_S * 2 ** (self.deaths - 1), BACKOFF_LAST_S)
        self._next_s = now_s + wait_s
        return (
            f"{self.launch.name} ended ({ending(self.last_code)}), starts again in {wait_s:.1f} s: {self.last_words()}"
        )

    def last_words(self) -> str:
        """Return the last line of its log that says why, else the last line."""
        with contextlib.suppress(OSError):
            lines = [line for line in self.launch.log.read_text(errors="replace").splitlines() if line.strip()]
            said = [line for line in lines if line.startswith("jetq: ")]
            if lines:
                return (said or lines)[-1].removeprefix("jetq: ")
        return f"it said nothing; see {self.launch.log}"


class LocalCluster:
    """The children of one `jetq up`."""

    def __init__(
        self,
        server: EmbeddedServer | None,
        nodes: Sequence[Launch],
        web: Launch | None,
        *,
        tell: Callable[[str], None],
        stopping: threading.Event,
    ) -> None:
        """Start nothing yet.

        Args:
            server: the broker, running; None: it is somebody else's.
            nodes: how each node is started, by name.
            web: how the web page is started; None: without.
            tell: takes each line for the person.
            stopping: set from outside (a signal) when all is to end.
        """
        self.nodes = {launch.name: Kept(launch) for launch in nodes}
        self.web = Kept(web) if web else None
        self._server = server
        self._tell = tell
        self._stopping = stopping

    def start(self, reader: Reader, *, within_s: float, web_port: int | None = None) -> None:
        """Start all and return once every node is up, in a run of its agent that began here.

        Raises:
            UsageError: a node says that it was asked wrongly; the message is its own.
            JetqError: a node does not come up, or the stop came first.
        """
        old = {row.name: row.epoch for row in reader.nodes()}
        end_s = time.monotonic() + within_s
        for kept in self.nodes.values():
            kept.start(fresh_log=True)
        while late := self._late(reader, old):
            self._pass_time(end_s, ", ".join(late))
        if self.web:  # only now: it asks the nodes once for their queues, when it starts
            self.web.start(fresh_log=True)
        while web_port and self.web and self.web.deaths < STILLBORN and not _listens(web_port):
            self._pass_time(end_s, "the web page")

    def look(self) -> bool:
        """Start again what has ended. True: something changed, and was told."""
        news = []
        if self._server and self._server.poll() is not None:
            news.append("the broker ended; it starts again")
            self._server.start()
        news += [said for kept in self._all() if (said := kept.look())]
        for line in news:
            self._tell(line)
        return bool(news)

    def stop(self, grace_s: float, hurry: threading.Event) -> None:
        """Let the nodes hand back their work, then end everything, the broker last. ``hurry`` ends the patience."""
        for kept in self._all():
            if kept.child:
                kept.child.signal(signal.SIGTERM)
        end_s = time.monotonic() + grace_s + STOP_S
        while any(kept.child and kept.child.poll() is None for kept in self._all()):
            if hurry.wait(LOOK_S) or time.monotonic() > end_s:
                break
        for kept in self._all():
            if kept.child and kept.child.poll() is None:
                self._tell(f"{kept.launch.name} is killed")
                process.kill_tree(kept.child.pid)
                kept.child.wait(STOP_S)
            kept.child = None
        if self._server:
            self._server.stop()

    def pids(self) -> dict[str, int]:
        """Return the nodes' process ids by name, of those that run."""
        return {name: kept.pid for name, kept in self.nodes.items() if kept.pid}

    def _all(self) -> list[Kept]:
        return [*self.nodes.values(), *([self.web] if self.web else [])]

    def _pass_time(self, end_s: float, late: str) -> None:
        """Wait a moment for what is late, or say why there is no more waiting."""
        self.look()
        self._refuse_stillborn()
        if self._stopping.wait(LOOK_S):
            raise JetqError("stopped before every node was up")
        if time.monotonic() > end_s:
            logs = next(iter(self.nodes.values())).launch.log.parent
            raise JetqError(f"{late} did not come up in time; see the logs in {logs}")

    def _refuse_stillborn(self) -> None:
        for kept in self.nodes.values():
            if kept.last_code == UsageError.exit_code:
                raise UsageError(f"{kept.launch.name}: {kept.last_words()}")
            if kept.deaths >= STILLBORN:
                raise JetqError(f"{kept.launch.name} does not come up: {kept.last_words()} (see {kept.launch.log})")

    def _late(self, reader: Reader, old: Mapping[str, str]) -> list[str]:
        """The nodes that are not up yet; a row of an earlier run's epoch does not count."""
        up: set[str] = set()
        with contextlib.suppress(BrokerError):
            rows = [row for row in reader.nodes() if row.state in _THERE]
            up = {row.name for row in rows if row.epoch != old.get(row.name)}
        return [name for name in self.nodes if name not in up]


def ending(code: int) -> str:
    """Return an exit code as a person reads it."""
    return f"signal {-code}" if code < 0 else f"exit {code}"


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
        return True
    return False
