"""One process group that a member of a gang runs: started, read line by line, and ended with all that belongs to it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from jetq import process
from jetq.config import EXPORTED
from jetq.launch.output import Line, Output
from jetq.log import Log
from jetq.probe.tools import search_path

#: What is read at once (bytes).
_READ_BYTES = 65536
#: Between two looks at whether a group has ended (s).
_LOOK_S = 0.05

_log = Log("ranks")


class RankProcess:
    """Start, poll and end are called by one thread, which lives as long as the process may."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        output: Output,
        take: Callable[[Line], None],
        mark: str,
    ) -> None:
        """``env``: added to this process's own; ``mark``: a variable in it that all descendants are known by."""
        self._argv, self._cwd, self._output, self._take = argv, cwd, output, take
        self._tmp = tempfile.mkdtemp(prefix="jetq-")
        ours = {name: value for name, value in os.environ.items() if name not in EXPORTED or name == process.MARK}
        self._env = {**ours, "PATH": search_path(), "TMPDIR": self._tmp, **env}
        self._mark = {mark: env[mark]}
        self._child: process.Child | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start it.

        Raises:
            JetqError: there is no such program.
        """
        read_fd, write_fd = os.pipe()
        try:
            self._child = process.spawn(self._argv, env=self._env, cwd=self._cwd, stdout=write_fd, stderr=write_fd)
        finally:
            os.close(write_fd)
        self._reader = threading.Thread(target=self._read, args=(read_fd,), name="ranks", daemon=True)
        self._reader.start()

    def poll(self) -> int | None:
        """Return its exit code, below 0 for a signal; None while it runs."""
        return self._child.poll() if self._child else None

    def end(self, grace_s: float) -> None:
        """Ask all that belongs to it to end; kill what has not after the grace."""
        if self._child is None:
            return
        self._child.terminate()
        end_s = time.monotonic() + grace_s
        while time.monotonic() < end_s and self._child.poll() is None:
            time.sleep(_LOOK_S)
        process.kill_group(self._child.pid, signal.SIGKILL)
        self._child.wait(grace_s)

    def close(self) -> None:
        """Kill what is left of it, and take the rest of its output.

        Raises:
            JetqError: something cannot be killed.
        """
        if self._child is not None:
            process.kill_group(self._child.pid, signal.SIGKILL)
        process.sweep_carriers(5.0, **self._mark)
        if self._reader is not None:
            self._reader.join(5.0)
        shutil.rmtree(self._tmp, ignore_errors=True)

    def _read(self, fd: int) -> None:
        with open(fd, "rb", buffering=0) as pipe:
            while data := pipe.read(_READ_BYTES):
                for line in self._output.feed(data):
                    self._take(line)
        for line in self._output.close():
            self._take(line)
