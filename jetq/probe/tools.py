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
_OPEN_MPI = re.compile(rb"\(Open MPI\)\s+v?(\d+)\.")


def search_path(env: Mapping[str, str] = os.environ) -> str:
    """Return the PATH of ranks: the folder of this node's own Python first (its torchrun, its wheel's mpirun)."""
    return os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])


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


def mem_free_bytes() -> int | None:
    """Return the memory that programs can get without swapping; None: it cannot be told."""
    try:
        return int(psutil.virtual_memory().available)
    except (OSError, ValueError, LookupError, RuntimeError, psutil.Error):
        return None


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
