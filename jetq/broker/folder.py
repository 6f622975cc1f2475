"""The folder of a `jetq up`: its lock, its state file, its password. Finds the broker for every other verb."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from jetq.config import Settings
from jetq.errors import JetqError, UsageError

#: A verb that only looks holds the lock for an instant: `up` asks again for so long (s).
_LOCK_PATIENCE_S = 0.5


@dataclass(frozen=True, slots=True)
class UpState:
    """What a running `jetq up` tells the other verbs."""

    pid: int  # of the `jetq up` itself
    url: str  # broker, password included: the file is readable by its owner only
    port: int | None  # of the embedded server; None: the broker is somebody else's
    server_pid: int | None = None
    web_port: int | None = None  # Flower; None: not started
    join: str | None = None  # the line that joins another machine
    nodes: Mapping[str, int] = field(default_factory=dict)  # node name -> pid of its guard
    grace_s: float = 30.0  # s its nodes wait for running work when they stop
    ready: bool = False  # every node has beaten


class UpFolder:
    """One folder; at most one `jetq up` runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @property
    def log_dir(self) -> Path:
        """Where the server and the nodes log."""
        return self.path / "logs"

    @property
    def data_dir(self) -> Path:
        """Where the server keeps its append-only file."""
        return self.path / "data"

    def acquire(self) -> None:
        """Make the folder and hold its lock until this process ends. The kernel frees it, so none is ever stale.

        Raises:
            JetqError: a `jetq up` runs here already.
            UsageError: the folder cannot be made or written.
        """
        try:
            for part in (self.path, self.log_dir, self.data_dir):
                part.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self.path / "up.lock").open("a+")
        except OSError as exc:
            raise UsageError(f"cannot use the folder {self.path}: {exc.strerror}; choose another --dir") from exc
        deadline_s = time.monotonic() + _LOCK_PATIENCE_S
        while not _try_lock(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline_s:
                lock.close()
                raise JetqError(self._already())
            time.sleep(0.02)
        self._lock = lock
        (self.path / "up.json").unlink(missing_ok=True)  # of one that was killed

    def release(self) -> None:
        """Remove the state file, then let the next `jetq up` in."""
        (self.path / "up.json").unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def write(self, state: UpState) -> None:
        """Replace the state file in one step."""
        self._write_private("up.json", json.dumps({**asdict(state), "nodes": dict(state.nodes)}, indent=1))

    def running(self) -> UpState | None:
        """Return the state of the `jetq up` that runs here now; a file left by a killed one does not count."""
        try:
            with (self.path / "up.lock").open("r") as lock:
                if _try_lock(lock, fcntl.LOCK_SH):
                    return None
            return UpState(**json.loads((self.path / "up.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def busy(self) -> bool:
        """Whether some `jetq up` holds the folder, ready or not."""
        try:
            with (self.path / "up.lock").open("r") as lock:
                return not _try_lock(lock, fcntl.LOCK_SH)
        except OSError:
            return False

    def password(self) -> str:
        """Return the folder's password; the first call makes it."""
        file = self.path / "password"
        if not file.exists():
            self._write_private("password", secrets.token_urlsafe(24))
        return file.read_text().strip()

    def last_port(self, what: str = "broker") -> int | None:
        """Return the port that ``what`` had here the last time."""
        try:
            return int((self.path / f"{what}.port").read_text())
        except (OSError, ValueError):
            return None

    def keep_port(self, port: int, what: str = "broker") -> None:
        """Remember the port, so that the next start takes it again and written-down URLs stay true."""
        self._write_private(f"{what}.port", str(port))

    def write_config(self, text: str) -> Path:
        """Write the server's configuration (it may hold the password) and return its path."""
        self._write_private("server.conf", text)
        return self.path / "server.conf"

    def _write_private(self, name: str, text: str) -> None:
        fresh = self.path / f".{name}.{os.getpid()}"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
        fresh.replace(self.path / name)

    def _already(self) -> str:
        state = self.running()
        who = f"pid {state.pid}, broker {state.url.rpartition('@')[2]}" if state else "it is just starting or stopping"
        return f"a `jetq up` already runs in {self.path} ({who}); stop it with `jetq down`, or give another --dir"


def find(settings: Settings) -> str:
    """Return the broker's URL: the one given, else that of the `jetq up` that runs in the folder.

    Raises:
        UsageError: none is given and none runs; the message names the three ways to have one.
    """
    if settings.broker_url:
        return settings.broker_url
    state = UpFolder(settings.home_dir).running()
    if state is None:
        raise UsageError(
            f"no broker: no `jetq up` runs in {settings.home_dir}; "
            "start one with `jetq up`, or give --broker redis://HOST:PORT, or set JETQ_BROKER_URL"
        )
    return state.url


def seen(settings: Settings) -> str:
    """Return the URL by which other machines reach the broker that ``settings`` name.

    A `jetq up --listen` on this machine is reached by loopback from here, and by its join line from elsewhere.
    """
    state = UpFolder(settings.home_dir).running()
    if state is not None and state.join and settings.broker_url in (None, state.url):
        return state.join.split("--broker ", 1)[1].split()[0]
    return settings.broker_url or ""


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
