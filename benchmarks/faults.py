"""Faults: how long a job is without a process, from the fault to its next start, on real nodes.

Two nodes of two slots. A job naps on one of them; a process of that node is killed (or its network is cut); the body's
own record tells when it started again. Nodes that end are started again at once, as systemd or `jetq up` would.

    child   the process that runs the body
    lane    the Celery worker above it
    agent   the process that beats
    guard   the node's guard
    power   all processes of the node at once
    cut     the node's network, in a namespace of its own (as root)
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psutil

from benchmarks._host import Host, can_build
from benchmarks._report import Report, Spread, options
from benchmarks._server import fresh_store, server
from benchmarks._workers import APP_DIR, ROOT, settings, wait
from benchmarks.app.tasks.soak import RECORD
from jetq import process
from jetq.store.redis import RedisStore
from jetq.wire import create_app

#: What the design promises for each fault (s from the fault to the job running again).
LIMITS_S = {"child": 2.0, "lane": 7.0, "agent": 7.0, "guard": 7.0, "power": 7.0, "cut": 7.0}
NAMES = ("a", "b")
#: Longest wait for a job to run (again), and for both nodes to be well (s).
START_S, WELL_S = 60.0, 120.0


class Node:
    """One node that is started again whenever it ends."""

    def __init__(self, name: str, env: dict[str, str], log: Path, host: Host | None) -> None:
        self._name, self._env, self._log, self.host = name, env, log, host
        self._child: process.Child | None = None

    def keep(self) -> None:
        """Start it unless it runs."""
        if self._child is None or self._child.poll() is not None:
            flags = ("--name", self._name, "--slots", "2", "--app-dir", str(APP_DIR), "--grace", "1")
            argv = process.self_argv("worker", *flags)
            argv = self.host.command(argv) if self.host else argv
            with self._log.open("ab") as out:
                self._child = process.spawn(argv, env=self._env, cwd=ROOT, stdout=out, stderr=out)

    @property
    def guard(self) -> int:
        """The pid of its guard."""
        assert self._child is not None
        return self._child.pid

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.signal(signal.SIGTERM)
            if self._child.wait(20) is None:
                self._child.kill()


class Scene:
    """Two nodes, and the record that bodies write."""

    def __init__(self, url: str, folder: Path, host: Host | None) -> None:
        """``host``: where the first node runs; None: here, as the other one."""
        self.store: RedisStore = fresh_store(url)
        self._app = create_app(settings(url), url, stores=False, current=False)
        self._record = folder / "record"
        self._record.touch()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("JETQ_")}
        env = {**clean, **settings(url).as_environ(), RECORD: str(self._record), "XDG_DATA_HOME": str(folder)}
        hosts = (host, None)
        self.nodes = {name: Node(name, env, folder / f"{name}.log", at) for name, at in zip(NAMES, hosts, strict=True)}

    def keep(self) -> bool:
        """Start what has ended."""
        for node in self.nodes.values():
            node.keep()
        return True

    def is_well(self) -> bool:
        """Whether both nodes are up and hold nothing."""
        self.keep()
        rows = self.store.nodes()
        return [row.name for row in rows if row.state == "up" and not row.used] == list(NAMES)

    def starts(self, job: str) -> list[float]:
        """Return when the body of a job started (s)."""
        lines = [line.split() for line in self._record.read_text().splitlines()]
        return [float(at) for what, id_, _token, at in lines if what == "start" and id_ == job]

    @contextmanager
    def only(self, name: str) -> Iterator[None]:
        """Let the other node take nothing."""
        (other,) = set(NAMES) - {name}
        self.store.drain(other, "it may not take the job", grace_s=0)
        yield
        self.store.resume(other)
        wait(lambda: all(row.state == "up" for row in self.store.nodes()), START_S, "the other node")

    def measure(self, break_: Callable[[Node, int], None], on: str | None = None) -> float:
        """Break a node that runs a job (``on``: which one). Returns how long the job was without a process (s)."""
        wait(self.is_well, WELL_S, "both nodes to be well")
        with self.only(on) if on else nullcontext():
            job = str(self._app.send_task("soak.work", kwargs={"nap_s": 600.0}).id)
            wait(lambda: bool(self.starts(job)), START_S, "the job to run")
        (held,) = [held for name in NAMES for held in self.store.held(name)]
        broken_s = time.time()
        break_(self.nodes[held.node], int(held.claimer.split(".")[0]))
        wait(lambda: self.keep() and len(self.starts(job)) > 1, START_S, "the job to run again", every_s=0.02)
        took_s = self.starts(job)[1] - broken_s
        self.store.cancel(job, "measured")
        return took_s


def _kill(level: int) -> Callable[[Node, int], None]:
    """Return what kills the process so many levels above the body."""

    def kill(_node: Node, pid: int) -> None:
        victim = psutil.Process(pid)
        for _ in range(level):
            above = victim.parent()
            assert above is not None
            victim = above
        victim.kill()

    return kill


def _power_off(node: Node, _pid: int) -> None:
    guard = psutil.Process(node.guard)
    everything = [guard, *guard.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for proc in everything:
            os.kill(proc.pid, number)


FAULTS = {"child": _kill(0), "lane": _kill(1), "agent": _kill(2), "guard": _kill(3), "power": _power_off}


@contextmanager
def _scene(host: Host | None = None) -> Iterator[Scene]:
    at = host.ours if host else None
    with server(at) as url, tempfile.TemporaryDirectory(prefix="jetq-bench-") as folder:
        scene = Scene(url, Path(folder), host)
        try:
            yield scene
        finally:
            for node in scene.nodes.values():
                node.stop()


def _cuts(repeats: int) -> Iterator[float]:
    """Cut the network of a node that runs a job so often, and join it again each time."""
    host = Host(os.getpid() % 16384)
    try:
        with _scene(host.build()) as scene:
            for _ in range(repeats):
                yield scene.measure(lambda _node, _pid: host.pull("far"), on=NAMES[0])
                host.plug("far")
    finally:
        host.remove()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every fault and print the times. Returns the exit code."""
    asked = options(__doc__, argv, repeats=20)
    report = Report("faults", "seconds from a fault to the job running again: median [least most]")
    times = {}
    with _scene() as scene:
        for name, break_ in FAULTS.items():
            times[name] = Spread.of([scene.measure(break_) for _ in range(asked.repeats)])
    if can_build():
        times["cut"] = Spread.of(_cuts(asked.repeats))
    else:
        report.say("cut: left out, since a network namespace takes root and iproute2")
    for name, spread in times.items():
        report.budget(f"{name}: the slowest, s", Spread.of([spread.high]), LIMITS_S[name])
    rows = [(name, spread, LIMITS_S[name]) for name, spread in times.items()]
    report.table("from the fault to the job running again (s)", ("fault", "time", "promised"), rows)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
