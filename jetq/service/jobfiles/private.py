"""Private folders of members of gangs: a member's own for as long as it lives, and removed after, however it ended.

An owner holds a lock on its folder, which the kernel lets go of when its process dies; who sweeps takes what is not
locked. Folders are made under a lock of the one above, so that no sweep meets one whose owner has it not yet. What lies
elsewhere, since its path has to be short, is named by a link in the private folder, and goes with it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Where they lie, beside a node's job folders; those that somebody wants to look into later are never swept.
WORK, KEPT = "work", "kept"
#: Links in such a folder lead to what its owner has outside of it, and goes with it.
_OUTSIDE = "outside-"
#: Longest path above a folder for temporary files: Open MPI puts sockets some 70 characters below it, of at most 107.
_SHORT = 24


@contextmanager
def private_folder(jobs_dir: Path | None, name: str, *, keep: bool) -> Iterator[Path]:
    """Give a new folder that nobody else looks into.

    Args:
        jobs_dir: of the node's job folders; None: the folder lies where temporary ones do.
        name: its name begins with it. keep: it stays.
    """
    above = jobs_dir.parent / (KEPT if keep else WORK) if jobs_dir else Path(tempfile.gettempdir())
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(above, fcntl.LOCK_SH):
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=above))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        if not keep:
            _remove(folder)
        os.close(lock)


def make_tmp(owner: Path) -> str:
    """Make a folder for temporary files, with a short path, that goes with a private folder.

    Raises:
        OSError: there is no room, or no folder that may be written to.
    """
    usual = tempfile.gettempdir()
    short = [path for path in (usual, "/tmp", "/var/tmp") if len(path) <= _SHORT and os.access(path, os.W_OK | os.X_OK)]
    made = tempfile.mkdtemp(prefix="jetq-r-", dir=short[0] if short else usual)
    _link(owner, made).symlink_to(made)
    return made


def remove_tmp(owner: Path, made: str) -> None:
    """Remove such a folder and all in it."""
    shutil.rmtree(made, ignore_errors=True)
    _link(owner, made).unlink(missing_ok=True)


def sweep_private(jobs_dir: Path) -> int:
    """Remove what members have left that were killed. Returns how many that were."""
    above, count = jobs_dir.parent / WORK, 0
    if not above.is_dir():
        return 0
    with _locked(above, fcntl.LOCK_EX):
        for folder in above.iterdir():
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            else:
                _remove(folder)
                count += 1
            finally:
                os.close(lock)
    return count


def _link(owner: Path, made: str) -> Path:
    return owner / f"{_OUTSIDE}{os.path.basename(made)}"


def _remove(folder: Path) -> None:
    for link in folder.glob(f"{_OUTSIDE}*"):
        if link.is_symlink():
            shutil.rmtree(os.readlink(link), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)
