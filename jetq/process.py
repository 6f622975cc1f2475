"""Start, find and kill processes. The only user of ``subprocess``.

Three ties keep a node from leaving anything behind: a child dies with the thread that spawned it (the exec shim), an
orphan is adopted by its guard (``become_subreaper``), and whatever carries the environment marker can be swept.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from jetq import procfs
from jetq.errors import JetqError
from jetq.procfs import environ, pids

#: The environment variable by which a node knows its processes, however deep in the tree: dotted, outermost part first.
MARK = "JETQ_MARK"
#: What a stream of a child may be: inherited (None), DEVNULL, PIPE, an fd or an open file.
Stream = int | IO[bytes] | IO[str] | None
DEVNULL = subprocess.DEVNULL
PIPE = subprocess.PIPE

#: What the kernel says of processes, for who uses this module.
born, children, command, group = procfs.born, procfs.children, procfs.command, procfs.group
network, parent, place = procfs.network, procfs.parent, procfs.place

_HERE = Path(__file__).resolve().parent
#: prctl(2): orphans of our descendants become our children instead of init's.
_PR_SET_CHILD_SUBREAPER = 36
#: prctl(2): the signal a process gets when its parent thread ends.
_PR_SET_PDEATHSIG = 1
#: Time between two looks while waiting for killed processes to be gone (s); the kernel needs a moment to free memory.
_LOOK_S = 0.02


class Child:
    """A process that was spawned here, and its group."""

    def __init__(self, popen: subprocess.Popen[bytes], argv: Sequence[str], *, leads: bool) -> None:
        self._popen = popen
        self._leads = leads
        self.argv = list(argv)
        self.pid = popen.pid

    @property
    def stdout(self) -> IO[bytes] | None:
        """The read end of its output, if it was started with ``stdout=PIPE``."""
        return self._popen.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        """The read end of its complaints, if it was started with ``stderr=PIPE``."""
        return self._popen.stderr

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        return self._popen.poll()

    def wait(self, within_s: float | None = None) -> int | None:
        """Wait until it ends. Returns its exit code, or None if it still runs after ``within_s``."""
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, signum: int) -> None:
        """Send a signal to the process alone."""
        self._popen.send_signal(signum)

    def terminate(self) -> None:
        """Ask its whole group to end (SIGTERM)."""
        self._to_all(signal.SIGTERM)

    def kill(self) -> None:
        """Kill its whole group (SIGKILL), and take the exit code."""
        self._to_all(signal.SIGKILL)
        self._popen.wait()

    def _to_all(self, signum: int) -> None:
        if self._leads:
            kill_group(self.pid, signum)
        else:
            self._popen.send_signal(signum)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    pass_fds: Sequence[int] = (),
    stdin: Stream = DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    own_session: bool = True,
    tied: bool = True,
    tie: int = signal.SIGKILL,
) -> Child:
    """Start a program that is killed when the calling *thread* ends, however that happens.

    Args:
        argv: program (found on PATH) and arguments.
        env: its whole environment; None: ours.
        own_session: make it leader of a session and group, out of reach of the terminal's Ctrl-C.
        tied: False for a daemon that outlives us.
        tie: the signal it gets when that thread ends; one it handles lets it clear up first.

    Raises:
        JetqError: there is no such program, or it may not be run.
    """
    search = (os.environ if env is None else env).get("PATH", os.defpath)
    program = shutil.which(argv[0], path=search)
    if program is None:
        raise JetqError(f"cannot start {argv[0]!r}: no such program on this machine; install it or put it on PATH")
    command = [os.path.abspath(program), *argv[1:]]
    if tied:
        command = [*shim_argv("_exec_shim.py"), str(os.getpid()), str(int(tie)), *command]
    try:
        popen = subprocess.Popen(
            command,
            env=None if env is None else dict(env),
            cwd=cwd,
            pass_fds=tuple(pass_fds),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=own_session,
        )
    except OSError as exc:
        raise JetqError(f"cannot start {argv[0]!r}: {exc}") from exc
    return Child(popen, argv, leads=own_session)


def self_argv(*args: str) -> list[str]:
    """Return the command line that runs a verb of this very jetq under this very Python."""
    return [sys.executable, str(_HERE / "_run.py"), *args]


def shim_argv(name: str) -> list[str]:
    """Return the command line that runs a file of jetq which loads nothing of it, and of Python hardly anything."""
    return [sys.executable, "-I", "-S", str(_HERE / name)]


def become(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Replace this process by another program: same pid, same parent, same tie to it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(argv[0], list(argv), dict(env))


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def tie_to(parent_pid: int) -> None:
    """Let this process be killed when its parent ends. Call it right after a fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before the tie was made
        os._exit(1)


def become_subreaper() -> None:
    """Adopt every orphan among our descendants from now on."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise JetqError("this kernel offers no subreaper (Linux 3.4 or newer is needed)")


def adopted(own: Iterable[int]) -> list[int]:
    """Return the children that we did not start ourselves. ``own``: pids of those we did."""
    return [pid for pid in children() if pid not in set(own)]


def reap_adopted(own: Iterable[int]) -> list[int]:
    """Kill what was adopted and collect what has ended. Returns the pids that were found."""
    found = adopted(own)
    for pid in found:
        _kill(pid)
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
    return found


def kill_group(pgid: int, signum: int = signal.SIGKILL) -> bool:
    """Signal a whole process group. False: there is none."""
    try:
        os.killpg(pgid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_tree(root: int) -> list[int]:
    """Kill a process and all its descendants. Each is stopped before its children are listed, so none slips away."""
    tree: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid not in tree and _kill(pid, signal.SIGSTOP):
            tree.append(pid)
            waiting.extend(children(pid))
    for pid in tree:
        _kill(pid)
    return tree


def end_all() -> NoReturn:
    """Kill all below this process, then the process itself."""
    for pid in children():
        kill_tree(pid)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)  # not reached


def marked(prefix: str | None, *, spare: str = "") -> list[int]:
    """Return the pids whose marker is ``prefix`` or lies below it.

    Args:
        prefix: dotted parts, the outermost first; None: any marker at all.
        spare: markers that are this or lie below it are left out; so are this process and its parent.
    """
    out = []
    for pid in set(pids()) - {os.getpid(), os.getppid()}:
        mark = _mark_of(pid)
        wanted = bool(mark) if prefix is None else _is_below(mark, prefix)
        if wanted and not (spare and _is_below(mark, spare)):
            out.append(pid)
    return sorted(out)


def sweep(prefix: str, *, spare: str = "", within_s: float = 5.0) -> list[int]:
    """Kill every process that ``marked`` finds, until none is left. Returns their pids.

    Raises:
        JetqError: one of them is still there after ``within_s``; the message names it.
    """
    return _kill_all(lambda: marked(prefix, spare=spare), within_s)


def carriers(**variables: str) -> list[int]:
    """Return the pids that were started with these variables in their environment, but for ours and our parent's."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    others = set(pids()) - {os.getpid(), os.getppid()}
    return sorted(pid for pid in others if wanted <= set(environ(pid)))


def carries(pid: int, variable: str) -> bool:
    """Tell whether a process was started with a variable of this name in its environment."""
    return any(part.startswith(f"{variable}=".encode()) for part in environ(pid))


def signal_all(found: Iterable[int], signum: int) -> None:
    """Send a signal to each of these processes; who is gone meanwhile is none."""
    for pid in found:
        _kill(pid, signum)


def sweep_carriers(within_s: float, **variables: str) -> list[int]:
    """Kill every process that was started with these variables in its environment, until none is left. Returns pids.

    Raises:
        JetqError: one of them is still there after ``within_s``; the message names it.
    """
    return _kill_all(lambda: carriers(**variables), within_s)


def _kill_all(find: Callable[[], list[int]], within_s: float) -> list[int]:
    killed: set[int] = set()
    end_s = time.monotonic() + within_s
    while left := find():
        killed.update(pid for pid in left if _kill(pid))
        if time.monotonic() > end_s:
            raise JetqError(f"processes {left} cannot be killed; look at them with `ps` (state D waits for a device)")
        time.sleep(_LOOK_S)
    return sorted(killed)


def _is_below(mark: str, prefix: str) -> bool:
    return mark == prefix or mark.startswith(prefix + ".")


def _kill(pid: int, signum: int = signal.SIGKILL) -> bool:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _mark_of(pid: int) -> str:
    key = f"{MARK}=".encode()
    return next((part[len(key) :].decode(errors="replace") for part in environ(pid) if part.startswith(key)), "")
