"""Whether the checkpoints of a gang are on storage that all its nodes have: one writes a file, all read it.

Storage of the network can hang for ever; whoever waits for it here gives up in time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

#: Of the file that is written, with its token behind.
_NAME = ".jetq-shared-"
#: Between two looks (s).
_LOOK_S = 0.1


def checkpoints(shared: Path, gang: str) -> Path:
    """Return the folder of a gang's checkpoints on shared storage (``JETQ_SHARED``); its attempts all have the same."""
    return shared / "checkpoints" / gang


def leave(folder: Path, token: str, within_s: float) -> bool:
    """Make the folder and write the token there, before anybody looks for it. False: that did not work in time."""

    def write() -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{_NAME}{token}", "w") as file:
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
        return True

    return _in_time(write, within_s)


def finds(folder: Path, token: str, within_s: float) -> bool:
    """Tell whether the token is there and the folder can be written to, so that this node could go on from there."""
    end_s = time.monotonic() + within_s

    def read() -> bool:
        while True:
            try:
                os.listdir(folder)  # makes NFS ask its server anew for what is there
                if (folder / f"{_NAME}{token}").read_text() == token:
                    return os.access(folder, os.W_OK | os.X_OK)
            except OSError:
                pass
            if time.monotonic() + _LOOK_S > end_s:
                return False
            time.sleep(_LOOK_S)

    return _in_time(read, within_s)


def clear(folder: Path, token: str, within_s: float) -> None:
    """Remove the token, once all have looked."""

    def remove() -> bool:
        (folder / f"{_NAME}{token}").unlink(missing_ok=True)
        return True

    _in_time(remove, within_s)


def _in_time(call: Callable[[], bool], within_s: float) -> bool:
    """Return what the call says; False where it fails, or takes longer."""
    answers: list[bool] = []

    def run() -> None:
        try:
            answers.append(call())
        except OSError:
            answers.append(False)

    thread = threading.Thread(target=run, name="shared", daemon=True)
    thread.start()
    thread.join(within_s)
    return answers == [True]
