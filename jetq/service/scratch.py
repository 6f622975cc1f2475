"""Folders for the temporary files of ranks: private, with short paths, and none stays when its owner is killed.

An owner holds a lock on its folder, which ends with its process, however that ends; whoever makes the next folder on
this machine removes those that nobody holds. (systemd-tmpfiles leaves locked folders alone, too.)
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time

#: Longest path of the folder above: Open MPI puts sockets some 70 characters below ours, of at most 107.
_SHORT = 24
_PREFIX = "jetq-r-"
#: A folder that is younger may not have its lock yet (s).
YOUNG_S = 60.0


class Scratch:
    """One folder, from its making until ``remove``."""

    def __init__(self) -> None:
        """Make it.

        Raises:
            OSError: there is no room, or no folder that may be written to.
        """
        above = _above()
        _sweep(above)
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=above)
        self._fd = _locked(self.path)

    def remove(self) -> None:
        """Remove it and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _above() -> str:
    usual = tempfile.gettempdir()
    short = [path for path in (usual, "/tmp", "/var/tmp") if len(path) <= _SHORT and os.access(path, os.W_OK | os.X_OK)]
    return short[0] if short else usual


def _sweep(above: str) -> None:
    """Remove what others of this user have left, as far as it lets itself be removed."""
    with os.scandir(above) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > YOUNG_S:
                fd = _locked(entry.path)
                if fd is not None:
                    shutil.rmtree(entry.path, ignore_errors=True)
                    os.close(fd)


def _locked(path: str) -> int | None:
    """Return an fd that holds the folder's lock until it is closed; None: another one holds it, or it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd
