"""What a node has for the ranks of a gang. Nothing of it is loaded: PyTorch alone would take seconds."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from jetq import process
from jetq.errors import JetqError

#: `mpirun --version` takes a tenth of a second; a broken one may hang (s).
MPIRUN_S = 5.0
#: The processors of ELF files (e_machine, elf.h), as uname calls them.
_MACHINES = {62: "x86_64", 183: "aarch64"}
_OPEN_MPI = re.compile(rb"\(Open MPI\)\s+v?(\d+)\.")


def search_path(env: Mapping[str, str] = os.environ) -> str:
    """Return the PATH of ranks: the folder of this node's own Python first (its torchrun, its wheel's mpirun).

    Where PATH has that folder somewhere, its order is somebody's wish: a node can have the system's mpirun before the
    one of its venv.
    """
    own, path = str(Path(sys.executable).parent), env.get("PATH") or os.defpath
    return path if own in path.split(os.pathsep) else f"{own}{os.pathsep}{path}"


def torch() -> str | None:
    """Return the version of PyTorch beside this Python, or None."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def python() -> str:
    """Return the version of this Python."""
    return platform.python_version()


def open_mpi(path: str | None = None) -> int | None:
    """Return the major version of the Open MPI whose mpirun is found on ``path``; None: there is none, or it is broken.

    Args:
        path: where to look; None: the PATH of ranks.
    """
    program = shutil.which("mpirun", path=search_path() if path is None else path)
    if program is None:
        return None
    try:
        return _major(program, os.stat(program).st_mtime_ns)
    except (JetqError, OSError):
        return None


def disk_free_bytes(folder: Path) -> int | None:
    """Return what a job may still write below a folder that exists; None: it cannot be told."""
    try:
        return int(psutil.disk_usage(str(folder)).free)
    except OSError:
        return None


def mem_free_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that programs can get without swapping; None: it cannot be told. ``root``: holds sys.

    In a container with a limit it is what is left of that, where it is less.
    """
    try:
        free = int(psutil.virtual_memory().available)
    except (OSError, ValueError, LookupError, RuntimeError, psutil.Error):
        return None
    group = root / "sys/fs/cgroup"
    try:
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no limit ("max"), or none that can be read
        return free
    cached = int(stat.get("inactive_file", 0))  # counts as used, and is given up for programs
    return max(0, min(free, limit - used + cached))


def skew_s(server_s: float, here_s: float) -> float:
    """Return how far this machine's wall clock is ahead of a server's.

    Args:
        server_s: what the server said its time is (Unix seconds).
        here_s: ``time.time()`` here at that moment.
    """
    return here_s - server_s


def why_not(program: str, folder: Path, path: str | None = None) -> str | None:
    """Return why ranks could not start a program, as a sentence; None: they can.

    Args:
        program: a name that is sought on PATH, or a path (a relative one is below the folder).
        folder: where ranks run.
        path: where to look for a name; None: the PATH of ranks.
    """
    if "/" not in program:
        if shutil.which(program, path=_inside(folder, search_path() if path is None else path)):
            return None
        if (folder / program).is_file():
            return f"{program} is not on PATH; it is a file of the workdir: write ./{program}"
        return f"{program} is not installed (sought on PATH); install it there, or send it in the workdir"
    where = folder / program
    if not where.exists():
        whose = "on this node" if program.startswith("/") else "in the workdir"
        return f"{program} is not there {whose}; send it in the workdir, and write its path in there"
    if not where.is_file():
        return f"{program} is no file; name a program"
    if not os.access(where, os.X_OK):
        return f"{program} is not executable; `chmod +x` it before it is sent, or name its interpreter"
    return _why_not_here(program, where)


def _why_not_here(program: str, path: Path) -> str | None:
    """Return why the kernel would not start an executable file; None: it would, or nobody can tell."""
    try:
        with open(path, "rb") as file:
            head = file.read(256)
    except OSError:  # executable, not readable
        return None
    if head.startswith(b"#!"):
        line = head.partition(b"\n")[0][2:].decode(errors="replace")
        interpreter = (line.split() or [""])[0]
        if line.endswith("\r"):
            return (
                f"{program} has line ends of Windows, so its interpreter is not found; `dos2unix` it before it is sent"
            )
        if not os.path.exists(path.parent / interpreter):
            return f"{program} names the interpreter {interpreter} in its first line, which is not there on this node"
    if head.startswith(b"\x7fELF") and len(head) >= 20:
        made_for = _MACHINES.get(int.from_bytes(head[18:20], "little" if head[5] == 1 else "big"))
        if made_for and platform.machine() in _MACHINES.values() and made_for != platform.machine():
            return f"{program} is a program for {made_for}, but this node is {platform.machine()}; compile it there"
    return None


def _inside(folder: Path, path: str) -> str:
    """Return a PATH whose relative folders are below ``folder``, where ranks run."""
    return os.pathsep.join(str(folder / part) for part in path.split(os.pathsep))


@functools.lru_cache(maxsize=16)
def _major(program: str, changed_ns: int) -> int | None:
    """Ask a program once, as long as its file is the same.

    Raises:
        JetqError: it cannot be started, or gave no answer; it is asked again the next time.
    """
    child = process.spawn([program, "--version"], stdout=process.PIPE, stderr=process.DEVNULL)
    if child.wait(MPIRUN_S) is None:
        child.kill()
        raise JetqError(f"{program} --version gave no answer within {MPIRUN_S:.0f} s")
    assert child.stdout is not None
    with child.stdout as output:
        os.set_blocking(output.fileno(), False)  # a child of its own may hold the other end
        found = _OPEN_MPI.search(output.read(65536) or b"")
    return int(found[1]) if found else None
