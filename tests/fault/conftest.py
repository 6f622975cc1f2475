"""Real nodes for fault tests: `jetq worker` as its own process, with a user's tasks, on a broker of its own.

start_node     start_node(name="a", *flags, **environment) -> Node; all are killed when the test ends
ledger         the ledger of the emptied broker
send           send(task name, *args, **options of send_task) -> job id
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import process, wire
from jetq.config import Settings
from jetq.service.facts import mark_key
from jetq.store.redis import RedisStore, connect

ROOT = Path(__file__).resolve().parents[2]
#: The tasks that its nodes load.
TASKS = Path(__file__).with_name("fault_tasks.py")


class Node:
    """A node started by ``jetq worker``."""

    def __init__(self, name: str, url: str, popen: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self.popen = popen
        self.key = mark_key(url, "jetq", name, process.network())
        self._log = log

    @property
    def guard(self) -> int:
        """The pid of the guard: the process that was started has become it."""
        return self.popen.pid

    @property
    def log(self) -> str:
        """What all its processes wrote."""
        return self._log.read_text()

    def pid_of(self, what: str) -> int:
        """Return the pid of ``agent`` or of a lane (``tasks``, ``processes``)."""
        words = {"agent": ["worker", "--name", self.name]}.get(what, ["_lane", what])
        found = [pid for pid in process.marked(self.key) if _argv(pid)[2 : 2 + len(words)] == words]
        return min(found)  # pool children carry the lane's command line too; the lane is the eldest

    def left(self) -> list[int]:
        """Return the pids of all its processes but the guard."""
        return process.marked(self.key)

    def wait(self, within_s: float = 20.0) -> int:
        """Wait for its end and return the exit code."""
        return self.popen.wait(within_s)


def _argv(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


@pytest.fixture
def app_dir(tmp_path: Path) -> Path:
    """Give a user's folder with the tasks above."""
    (tmp_path / "app" / "tasks").mkdir(parents=True)
    (tmp_path / "app" / "tasks" / "fault.py").write_text(TASKS.read_text())
    return tmp_path / "app"


@pytest.fixture
def ledger(redis_url: str) -> RedisStore:
    """Give the ledger."""
    return RedisStore(connect(redis_url), "jetq")


@pytest.fixture
def send(redis_url: str) -> Callable[..., str]:
    """Give ``send(task name, *args) -> job id``."""
    app = wire.create_app(Settings.from_environ(broker_url=redis_url), current=False)
    return lambda name, *args, **how: str(app.send_task(name, args, **how).id)


@pytest.fixture
def start_node(redis_url: str, app_dir: Path, tmp_path: Path, wait_until, ledger) -> Iterator[Callable[..., Node]]:
    """Give ``start_node(name="a", *flags, up=True, url=None, **environment) -> Node``."""
    started: list[Node] = []

    def start(name: str = "a", *flags: str, up: bool = True, url: str = redis_url, **environment: str) -> Node:
        log = tmp_path / f"node-{len(started)}-{name}.log"
        argv = [*process.self_argv("worker", "--name", name, "--slots", "2", "--app-dir", str(app_dir)), *flags]
        with log.open("w") as out:
            popen = subprocess.Popen(
                argv,
                env={**os.environ, "JETQ_BROKER_URL": url, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                text=True,
            )
        node = Node(name, url, popen, log)
        started.append(node)
        if up:
            wait_until(lambda: state_of(ledger, name) == "up", within_s=60, what=f"node {name} up\n{node.log}")
        return node

    yield start
    for node in started:
        if node.popen.poll() is None:
            os.kill(node.guard, signal.SIGKILL)
            node.popen.wait(10)
        process.sweep(node.key)


def state_of(ledger: RedisStore, name: str) -> str:
    """Return a node's state, "" if it is unknown."""
    return next((row.state for row in ledger.nodes() if row.name == name), "")


@pytest.fixture
def node_state(ledger: RedisStore) -> Callable[[str], str]:
    """Give ``node_state(name) -> state``."""
    return lambda name: state_of(ledger, name)


@pytest.fixture
def run_worker(redis_url: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Give ``run_worker(*flags, **environment)``: `jetq worker` that is expected to end by itself."""

    def run(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "JETQ_BROKER_URL": redis_url, **environment}
        argv = [sys.executable, "-m", "jetq", "worker", *flags]
        return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def jetq(redis_url: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Give ``jetq(*words)``: a verb that is expected to succeed on the test's broker."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "JETQ_BROKER_URL": redis_url}
        argv = [sys.executable, "-m", "jetq", *words]
        return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)

    return run
