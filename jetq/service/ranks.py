"""Run what a member of a gang starts, a launcher or a daemon and all below it, and end it so that nothing is left.

Processes of a member are found in three ways, each of which one may have left: they are in the group or session of the
first one, they carry its variables in their environment (however far they have moved: ``setsid``, daemons), or they
are descendants of one that was found. A run is over when its first process has exited and all the others are gone;
whoever is left then gets SIGTERM, and after 2 s SIGKILL.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jetq import process
from jetq.config import EXPORTED
from jetq.errors import JetqError
from jetq.launch.causes import RootCause
from jetq.launch.output import Line, Output
from jetq.log import Log
from jetq.probe.tools import search_path
from jetq.service.jobfiles.private import make_tmp, remove_tmp
from jetq.service.spout import Spout

#: From SIGTERM to SIGKILL: for ranks that shall end, and for what outlives its launcher (s).
GRACE_S, LEFT_S = 10.0, 2.0
#: Killed processes are waited for so long before ``end`` returns (s); a device may hold them.
KILLED_S = 5.0
#: ``close`` gives up on what cannot be killed after this long (s).
CLOSE_S = 5.0
#: Looks at what is left: the first wait and the longest (s).
_LOOK_S, _LATER_S = 0.02, 0.5
#: Ranks have it from mpirun or torchrun, which have it not themselves.
_RANK_OF_MPI, _RANK_OF_TORCH = "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID"
#: What the pipe of the output holds (bytes), where the kernel allows it.
_PIPE_BYTES = 1024**2

_log = Log("ranks")


def environment(of_lane: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ranks: the node's without what is its own business, and what the plan adds.

    ``PATH`` begins with the folder of this Python: its torchrun and mpirun come first.
    """
    env = {name: value for name, value in of_lane.items() if name not in EXPORTED or name == process.MARK}
    env.update(added)
    return {**env, "PATH": search_path(env)}


def to_ask(pids: list[int]) -> list[int]:
    """Return which of these are asked to end, so that each rank hears of it once and has its time.

    mpirun kills its ranks 0.2 s after it was asked itself, and ends with them; torchrun passes it on, and waits.
    """
    of_mpi = [pid for pid in pids if process.carries(pid, _RANK_OF_MPI)]
    others = [pid for pid in pids if not process.carries(pid, _RANK_OF_TORCH)]
    return of_mpi or others or pids


class RankProcess:
    """One program and all below it. One thread calls ``start``, ``poll``, ``end`` and ``close``, and outlives it."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        folder: Path,
        output: Output,
        take: Callable[[Line], None],
        mark: str,
    ) -> None:
        """Prepare it.

        Args:
            argv: program (found on the PATH of ranks) and arguments.
            env: added to this process's own (``environment``); without a TMPDIR it gets one of its own.
            cwd: folder it starts in.
            folder: private one of whoever runs it; its folder for temporary files goes with that.
            output: cuts what it writes, stdout and stderr together, into lines.
            take: gets each line, in another thread. It may be slow, or raise OSError or JetqError: lines are dropped.
            mark: variable in ``env`` by which all of its processes are known, and nobody else's.
        """
        self._argv, self._cwd, self._folder, self._output, self._take = list(argv), cwd, folder, output, take
        self._env, self._mark = environment(os.environ, env), {mark: env[mark]}
        self._own_tmp = "TMPDIR" not in env
        self._child: process.Child | None = None
        self._spout: Spout | None = None
        self._tmp: str | None = None
        self._known: dict[int, int] = {}  # pids that were found -> their births
        self._leads = True  # its number is still its group's, and nobody else's
        self._left_s: float | None = None  # since when its first process has gone and others are left

    def start(self) -> None:
        """Start it, tied to the thread that calls.

        Raises:
            JetqError: no such program or folder, it may not be run, or there is no room for temporary files.
        """
        env = dict(self._env)
        if self._own_tmp:
            try:
                self._tmp = make_tmp(self._folder)
            except OSError as exc:
                raise JetqError(f"no folder for temporary files can be made: {exc}") from exc
            env["TMPDIR"] = self._tmp
        read_fd, write_fd = os.pipe()
        try:
            _widen(write_fd)
            self._child = process.spawn(self._argv, env=env, cwd=self._cwd, stdout=write_fd, stderr=write_fd)
        except JetqError:
            os.close(read_fd)
            self._remove_tmp()
            raise
        finally:
            os.close(write_fd)
        self._spout = Spout(read_fd, self._output, self._take)

    @property
    def pid(self) -> int | None:
        """The process that was started."""
        return self._child.pid if self._child else None

    @property
    def exited(self) -> int | None:
        """The exit code of the process that was started, whatever it has left; None: it runs."""
        return self._child.poll() if self._child else None

    @property
    def dropped(self) -> int:
        """How many lines nobody took."""
        return self._spout.dropped if self._spout else 0

    @property
    def cause(self) -> RootCause | None:
        """The rank that failed first, once the launcher has named it."""
        return self._spout.cause if self._spout else None

    def tail(self, rank: int | None) -> list[str]:
        """Return the last lines of a rank, or of the launcher (None)."""
        return self._spout.tail(rank) if self._spout else []

    def poll(self) -> int | None:
        """Return the exit code, below 0 for a signal, once nothing of it is left; None while anything runs."""
        code = self._child.poll() if self._child else None
        if code is None:
            return None
        left = self._left()
        if not left:
            return code
        if self._left_s is None:
            self._left_s = time.monotonic()
            _log.warning("ranks.outlive", pid=self.pid, code=code, pids=left)
            process.signal_all(left, signal.SIGTERM)
        elif time.monotonic() - self._left_s > LEFT_S:
            process.signal_all(left, signal.SIGKILL)
        return None

    def end(self, grace_s: float = GRACE_S, others_done: Callable[[], bool] | None = None) -> int | None:
        """Ask all to end, then kill them. Returns the exit code; None: something is left (``close`` names it).

        ``others_done``: asked once no rank is left here but its launcher; where it is true, that is not waited for.
        """
        if self._child is None:
            return None
        self._signal(signal.SIGTERM)
        if not self._is_gone(grace_s, others_done):
            end_s, pause_s = time.monotonic() + KILLED_S, _LOOK_S
            self._signal(signal.SIGKILL)
            while not self._is_gone(pause_s) and time.monotonic() < end_s:
                self._signal(signal.SIGKILL)
                pause_s = min(pause_s * 2, _LATER_S)
        return None if self._left() else self._child.poll()

    def close(self, within_s: float = CLOSE_S) -> None:
        """Leave nothing: processes are killed, the last lines are given away, temporary files are removed.

        Raises:
            JetqError: a process is still there; the message names it. It may be called again.
        """
        end_s = time.monotonic() + within_s
        while left := self._left():
            self._signal(signal.SIGKILL)
            if time.monotonic() > end_s:
                names = ", ".join(f"{pid} ({process.command(pid)})" for pid in left)
                raise JetqError(f"processes {names} cannot be killed; look at them with `ps` (state D: a device)")
            self._is_gone(_LOOK_S)
        if self._spout is not None and not self._spout.close(max(1.0, end_s - time.monotonic())):
            _log.warning("output.unread", pid=self.pid)
        self._remove_tmp()

    def _signal(self, signum: int) -> None:
        left = self._left()
        if signum == signal.SIGTERM:
            left = to_ask(left)
        if self._child is not None and self._leads and signum == signal.SIGKILL:
            process.kill_group(self._child.pid, signum)  # at once, so that none slips away between look and signal
        process.signal_all(left, signum)

    def _is_gone(self, within_s: float, others_done: Callable[[], bool] | None = None) -> bool:
        """Wait until nothing is left."""
        began_s, pause_s = time.monotonic(), _LOOK_S
        while left := self._left():
            took_s = time.monotonic() - began_s
            rest_s = within_s - took_s
            if rest_s <= 0:
                return False
            if others_done is not None and took_s > LEFT_S and not any(map(_is_rank, left)) and others_done():
                return False
            time.sleep(min(pause_s, rest_s))
            pause_s = min(pause_s * 1.5, _LATER_S)
        return True

    def _left(self) -> list[int]:
        """Return the pids of all of it that run."""
        found = set(process.carriers(**self._mark))
        exited = self._child is None or self._child.poll() is not None  # before the look: what it left has its group
        if self._child is not None and self._leads:
            mates = process.group(self._child.pid)
            found.update(mates)
            self._leads = bool(mates) or not exited
        found.update(pid for pid, birth in self._known.items() if process.born(pid) == birth)
        waiting = list(found)
        while waiting:
            for pid in process.children(waiting.pop()):
                if pid not in found:
                    found.add(pid)
                    waiting.append(pid)
        births = {pid: process.born(pid) for pid in found}
        self._known = {pid: birth for pid, birth in births.items() if birth is not None}
        first = {self._child.pid} if self._child is not None and not exited else set()
        return sorted(first | set(self._known))

    def _remove_tmp(self) -> None:
        if self._tmp is not None:
            remove_tmp(self._folder, self._tmp)
            self._tmp = None


def _is_rank(pid: int) -> bool:
    return process.carries(pid, _RANK_OF_MPI) or process.carries(pid, _RANK_OF_TORCH)


def _widen(fd: int) -> None:
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:  # more than this user may have: the usual 64 KiB do
        return
