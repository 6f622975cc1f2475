"""Real nodes for fault tests: `jetq worker` as its own process, with a user's tasks, on a broker of its own.

start_node     start_node(name="a", *flags, **environment) -> Node; all are killed when the test ends
ledger         the ledger of the emptied broker
app            a producer's Celery app
send           send(task name, *args, **options of send_task) -> job id
send_to        send_to(url) -> send, for another broker
host           another machine: a network namespace at the other end of a cable
boards         three machines on one switch, with a broker and nodes of their own
cluster        such, with a node on each, for all tests of a file
end_of         end_of(job id...) -> rows: waits until all have ended
note           the file in which a body leaves the pids of its tree (tests/fault/probes.py reads it)
story          the file in which bodies tell their starts and ends
jetq           jetq(word...): a verb that is expected to succeed

A test that fails shows a timeline: what the nodes logged, and what the ledger knows of the nodes and jobs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery import Celery

from benchmarks._host import Host
from jetq import process, wire
from jetq.config import Settings
from jetq.errors import BrokerError
from jetq.model.job import JobRow
from jetq.store.redis import RedisStore, connect
from tests.fault.boards import Boards
from tests.fault.boards import boards as build_boards
from tests.fault.node import Node
from tests.fault.node import start as launch

ROOT = Path(__file__).resolve().parents[2]
#: The nodes that a test has started.
_STARTED = pytest.StashKey[list[Node]]()
#: The tasks that its nodes load.
TASKS = Path(__file__).with_name("fault_tasks.py")


class Story:
    """The file in which bodies tell what they do, a line each: ``start KEY …``, ``end KEY …``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def lines(self, what: str) -> list[list[str]]:
        """Return the words after ``what`` of all its lines, in order."""
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split()[1:] for line in text.splitlines() if line.startswith(f"{what} ")]

    def told(self, what: str) -> Counter[str]:
        """Return how often each key was told to ``start`` or ``end``."""
        return Counter(words[0] for words in self.lines(what))


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
def send_to() -> Callable[[str], Callable[..., str]]:
    """Give ``send_to(broker's url)``, which gives ``send`` for that broker."""

    def to(url: str) -> Callable[..., str]:
        app = wire.create_app(Settings.from_environ(broker_url=url), current=False)
        return lambda name, *args, **how: str(app.send_task(name, args, **how).id)

    return to


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Give the file in which bodies tell their starts and ends."""
    return Story(tmp_path / "story")


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """Give the file in which each run of a task leaves the pids of its tree, a line each."""
    return tmp_path / "pids"


@pytest.fixture
def app(redis_url: str) -> Celery:
    """Give a producer's app."""
    return wire.create_app(Settings.from_environ(broker_url=redis_url), current=False)


@pytest.fixture
def send(app: Celery) -> Callable[..., str]:
    """Give ``send(task name, *args) -> job id``."""
    return lambda name, *args, **how: str(app.send_task(name, args, **how).id)


@pytest.fixture
def end_of(ledger: RedisStore, wait_until) -> Callable[..., list[JobRow]]:
    """Give ``end_of(job id..., within_s=40) -> rows``: wait until all have ended."""

    def end(*jobs: str, within_s: float = 40.0) -> list[JobRow]:
        wait_until(lambda: all(ledger.job(job).ended for job in jobs), within_s=within_s, what="the end of all jobs")
        return [ledger.job(job) for job in jobs]

    return end


@pytest.fixture
def start_node(
    request, redis_url: str, app_dir: Path, tmp_path: Path, wait_until, ledger
) -> Iterator[Callable[..., Node]]:
    """Give ``start_node(name="a", *flags, up=True, url=None, host=None, **environment) -> Node``."""
    started: list[Node] = []
    request.node.stash[_STARTED] = started

    def start(
        name: str = "a",
        *flags: str,
        up: bool = True,
        url: str = redis_url,
        host: Host | None = None,
        **environment: str,
    ) -> Node:
        log = tmp_path / f"node-{len(started)}-{name}.log"
        argv = [*process.self_argv("worker", "--name", name, "--slots", "2", "--app-dir", str(app_dir)), *flags]
        if host is not None:
            argv = host.command(argv)
        before = run_of(ledger, name)
        network = host.network if host else process.network()
        node = launch(argv, name=name, url=url, log=log, network=network, env=environment)
        started.append(node)
        if up:
            wait_until(
                lambda: state_of(ledger, name) == "up" and run_of(ledger, name) != before,
                within_s=60,
                what=f"node {name} up\n{node.log}",
            )
        return node

    yield start
    for node in started:
        node.clear()


@pytest.fixture
def boards(tmp_path: Path) -> Iterator[Boards]:
    """Give three boards on one switch; each has another host name (tests/fault/boards.py)."""
    with build_boards(tmp_path, ("nano1", "nano2", "orin")) as made:
        yield made


@pytest.fixture
def host() -> Iterator[Host]:
    """Give another machine's network."""
    made = Host(os.getpid() % 16384)
    made.remove()  # of a run that was killed
    yield made.build()
    made.remove()


def run_of(ledger: RedisStore, name: str) -> str:
    """Return the epoch of a node's last run, "" if it is unknown."""
    return next((row.epoch for row in ledger.nodes() if row.name == name), "")


def state_of(ledger: RedisStore, name: str) -> str:
    """Return a node's state, "" if it is unknown."""
    return next((row.state for row in ledger.nodes() if row.name == name), "")


@pytest.fixture
def node_state(ledger: RedisStore) -> Callable[[str], str]:
    """Give ``node_state(name) -> state``."""
    return lambda name: state_of(ledger, name)


@pytest.fixture
def pops(ledger: RedisStore) -> Callable[[str], bool]:
    """Give ``pops(name)``: whether a connection of that name waits in a blocking pop."""

    def waits(name: str) -> bool:
        rows = ledger.client.client_list(_type="normal")
        return any(row["name"] == name and "b" in row["flags"] for row in rows)

    return waits


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add a timeline to the report of a test that failed while its nodes still run."""
    report = yield
    given = getattr(item, "funcargs", {})
    boards = given.get("boards", given.get("cluster"))
    nodes = [*item.stash.get(_STARTED, []), *(boards.nodes if isinstance(boards, Boards) else [])]
    if report.when == "call" and report.failed and nodes:
        report.sections.append(("timeline", "\n".join(_timeline(nodes))))
    return report


def _timeline(nodes: list[Node]) -> list[str]:
    """Return what the nodes logged, in the order of time, with what their ledgers know among it."""
    told: list[tuple[str, str]] = []
    for node in nodes:
        at = ""
        for line in node.log.splitlines():
            at = line[:12] if line[2:3] == line[5:6] == ":" else at  # lines of others stay where they stand
            told.append((at, line))
    state: list[str] = []
    for url in sorted({node.url for node in nodes} - {""}):
        try:
            ledger = RedisStore(connect(url), "jetq")
            told += [event for job in ledger.jobs(200) for event in _events(job)]
            state += [f"node {n.name}: {n.state}, {n.used:g}/{n.slots} slots {n.why}" for n in ledger.nodes()]
        except BrokerError as exc:
            state.append(f"{url}: {exc}")
    return [line for _, line in sorted(told, key=lambda entry: entry[0])] + state


def _events(job: JobRow) -> list[tuple[str, str]]:
    """Return what the ledger knows of a job, with the time of day."""
    known = [(h["at"], f"{h['what']} on {h['node'] or 'no node'}: {h['why']}") for h in job.history]
    known += [(job.submitted_at, f"was sent: {job.name}"), (job.started_at, "began its last run")]
    known.append((job.finished_at or time.time(), f"is {job.state} {job.nodes} {job.error or job.reason or ''}"))
    whole = [(at, what) for at, what in known if at is not None]
    return [(_time_of_day(at), f"{_time_of_day(at)} - job {job.id[:8]} {what}") for at, what in whole]


def _time_of_day(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s)) + f".{int(at_s % 1 * 1000):03d}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Boards]:
    """Give three boards with a node on each, for all tests of a file."""
    with build_boards(tmp_path_factory.mktemp("boards"), ("nano1", "nano2", "orin")) as made:
        made.start_all()
        yield made
