"""What the soak breaks: processes of the cluster under test, found below its `jetq up`, by pid."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import psutil

from jetq.errors import JetqError
from jetq.store.redis import RedisStore

#: A frozen process is let go after at most so long (s): sometimes past the fence, sometimes not.
FREEZE_S = 8.0


class Faults:
    """Breaks one thing at a time. ``step`` may take some seconds."""

    def __init__(self, up_pid: int, store: RedisStore, rng: random.Random) -> None:
        self._up = psutil.Process(up_pid)
        self._store = store
        self._rng = rng
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """Break something that is there."""
        kinds = {
            "child killed": (6, lambda: self._kill("child")),
            "lane killed": (4, lambda: self._kill("lane")),
            "agent killed": (3, lambda: self._kill("agent")),
            "guard killed": (2, lambda: self._kill("guard")),
            "agent frozen": (3, lambda: self._freeze("agent", FREEZE_S)),
            "guard frozen": (1, lambda: self._freeze("guard", FREEZE_S)),
            "lane frozen": (2, lambda: self._freeze("lane", FREEZE_S)),
            "node stopped": (2, lambda: self._signal_one("guard", signal.SIGTERM)),
            "broker frozen": (2, lambda: self._freeze("broker", 4.0)),
            "broker killed": (2, lambda: self._kill("broker")),
            "connections cut": (3, self._cut),
            "node drained": (2, self._drain),
        }
        name = self._rng.choices(list(kinds), weights=[weight for weight, _ in kinds.values()])[0]
        if kinds[name][1]():
            self.done[name] += 1

    def _find(self, what: str) -> list[psutil.Process]:
        found = []
        for proc in self._up.children(recursive=True):
            try:
                if _role(proc) == what:
                    found.append(proc)
            except psutil.Error:
                continue
        return found

    def _pick(self, what: str) -> psutil.Process | None:
        found = sorted(self._find(what), key=lambda proc: proc.pid)
        return self._rng.choice(found) if found else None

    def _kill(self, what: str) -> bool:
        return self._signal_one(what, signal.SIGKILL)

    def _signal_one(self, what: str, number: signal.Signals) -> bool:
        victim = self._pick(what)
        return victim is not None and _signal(victim, number)

    def _freeze(self, what: str, most_s: float) -> bool:
        victim = self._pick(what)
        if victim is None or not _signal(victim, signal.SIGSTOP):
            return False
        try:
            time.sleep(self._rng.uniform(0.5, most_s))
        finally:
            _signal(victim, signal.SIGCONT)
        return True

    def _cut(self) -> bool:
        try:
            self._store.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        except OSError:
            return False
        return True

    def _drain(self) -> bool:
        try:
            names = [node.name for node in self._store.nodes() if node.state == "up"]
            if len(names) < 2:
                return False
            name = self._rng.choice(names)
            self._store.drain(name, "the soak", grace_s=self._rng.uniform(0, 3))
            time.sleep(self._rng.uniform(0.5, 4))
        except JetqError:
            return False
        return self.resume(name)

    def resume(self, *names: str) -> bool:
        """Let nodes have work again, however often the broker does not answer."""
        for name in names:
            while True:
                try:
                    self._store.resume(name)
                    break
                except JetqError:
                    time.sleep(0.5)
        return True


def _role(proc: psutil.Process) -> str:
    """Return what a process below `jetq up` is; "" for anything else."""
    argv = proc.cmdline() or [""]
    if Path(argv[0]).name.startswith(("valkey-server", "redis-server")):  # its title has the port, too
        return "broker"
    if "_guard" in argv:
        return "guard"
    if "_lane" in argv:
        return "lane" if "_lane" not in proc.parent().cmdline() else "child"
    return "agent" if "worker" in argv and "--name" in argv else ""


def _signal(proc: psutil.Process, number: signal.Signals) -> bool:
    try:
        os.kill(proc.pid, number)
    except ProcessLookupError:
        return False
    return True
