"""A real node: `jetq worker` as its own process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jetq import process
from jetq.service.facts import mark_key


class Node:
    """A node started by ``jetq worker``."""

    def __init__(self, name: str, url: str, popen: subprocess.Popen[str], log: Path, network: str) -> None:
        self.name = name
        self.url = url
        self.popen = popen
        self.key = mark_key(url, "jetq", name, network)
        self._log = log

    @property
    def guard(self) -> int:
        """The pid of the guard: the process that was started has become it."""
        return self.popen.pid

    @property
    def log(self) -> str:
        """What all its processes wrote."""
        return self._log.read_text()

    def pid_of(self, what: str) -> int:
        """Return the pid of ``agent`` or of a lane (``tasks``, ``processes``)."""
        words = {"agent": ["worker", "--name", self.name]}.get(what, ["_lane", what])
        found = [pid for pid in process.marked(self.key) if _argv(pid)[2 : 2 + len(words)] == words]
        return min(found)  # pool children carry the lane's command line too; the lane is the eldest

    def left(self) -> list[int]:
        """Return the pids of all its processes but the guard."""
        return process.marked(self.key)

    def wait(self, within_s: float = 20.0) -> int:
        """Wait for its end and return the exit code."""
        return self.popen.wait(within_s)

    def power_off(self) -> None:
        """Kill all its processes at once, the guard first: nobody is left to tell the ledger."""
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (self.guard, *self.left()):
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(pid, signum)
        self.wait()

    def clear(self) -> None:
        """Leave nothing of it."""
        if self.popen.poll() is None:
            os.kill(self.guard, signal.SIGKILL)
            self.popen.wait(10)
        process.sweep(self.key)


def start(argv: Sequence[str], *, name: str, url: str, log: Path, network: str, env: Mapping[str, str]) -> Node:
    """Start a node by a command line of `jetq worker`. ``url``: of its broker; ``env``: added to ours."""
    with log.open("w") as out:
        popen = subprocess.Popen(
            argv,
            env={**os.environ, "JETQ_BROKER_URL": url, **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            text=True,
        )
    return Node(name, url, popen, log, network)


def _argv(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []
