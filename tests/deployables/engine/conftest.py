"""A lane without an agent: the test plays the agent over the two pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import ids, page, process
from jetq.config import Settings
from jetq.engine.app import create_app
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.policy import strategies
from jetq.store.redis import RedisStore, connect

HERE = Path(__file__).parent


class Node:
    """One node whose agent is the test."""

    def __init__(self, url: str, name: str, slots: int, log: Path, *, pool: str = "fork") -> None:
        self.name, self.slots, self.log = name, slots, log
        self.epoch = ids.random64()
        self.store = RedisStore(connect(url), "jetq")
        facts = NodeFacts(name, f"id-{name}", self.epoch, slots, 0, 8 << 30, "pc", (f"node={name}",), "0")
        self.store.join(facts, strategies.rates(slots, 1, 1), dead_s=5)
        control_r, self.control = os.pipe()
        self.status, status_w = os.pipe()
        env = {**os.environ, "JETQ_BROKER_URL": url, "JETQ_POOL": pool, "PYTHONPATH": f"{HERE}:{Path.cwd()}"}
        self.page, page_fd = page.create(slots)
        fds = (control_r, status_w, page_fd)
        argv = [sys.executable, str(HERE / "lane_main.py"), name, self.epoch, str(slots), *map(str, fds)]
        with log.open("ab") as out:
            self.process = subprocess.Popen(argv, env=env, pass_fds=fds, stdout=out, stderr=out)
        for fd in fds:
            os.close(fd)
        self.seq = 0
        self.state = "starting"
        self.said: dict[str, object] = {"ready": 0, "reserved": []}
        self._stop = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._beater = threading.Thread(target=self._beat, daemon=True)
        self._beater.start()

    def _read(self) -> None:
        with os.fdopen(self.status) as lines:
            for line in lines:
                self.said = json.loads(line)

    def _beat(self) -> None:
        while not self._stop.wait(0.2):
            if self.state == "starting" and self.said["ready"]:
                self.state = "up"
            self.beat()

    @property
    def running(self) -> list[str]:
        """The jobs that run by the page."""
        return [entry.job_id for entry in self.page.living(process.born)]

    def beat(self) -> None:
        """Beat once, and pass on what the ledger says, as the agent does."""
        self.seq += 1
        rates = strategies.rates(self.slots, 1, 1)
        reply = self.store.beat(Beat(self.name, self.epoch, self.seq, self.state, rates, 0, 1, 1, Metrics()))
        self.store.due()
        allow = min(int(self.said["ready"]), self.slots) if self.state == "up" else 0
        self.tell(allow=allow, cohorts=list(reply.cohorts), cancel=list(reply.cancel))

    def tell(self, **said: object) -> None:
        """Write one line to the lane."""
        if self.process.poll() is None:
            os.write(self.control, json.dumps(said).encode() + b"\n")

    def close(self) -> None:
        """Stop the lane."""
        self._stop.set()
        self._beater.join(5)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
        os.close(self.control)


class Bench:
    """A producer's app and the ledger, with the questions tests ask."""

    def __init__(self, url: str) -> None:
        self.app = create_app(Settings(), url)
        self.store = RedisStore(connect(url), "jetq")
        self.redis = connect(url)
        sys.path.insert(0, str(HERE)) if str(HERE) not in sys.path else None

    def runs(self, job_id: str) -> int:
        return int(self.redis.get(f"ran:{job_id}") or 0)

    def state(self, job_id: str) -> str:
        row = self.store.job(job_id)
        return row.state if row else ""

    def until(self, condition: Callable[[], object], what: str = "", seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                rows = "\n".join(str(r) for r in self.store.jobs(20))
                raise AssertionError(f"not within {seconds} s: {what}\n{rows}")
            threading.Event().wait(0.01)

    def ended(self, job_id: str, state: str = "SUCCEEDED", seconds: float = 20) -> None:
        self.until(lambda: self.state(job_id) in ("SUCCEEDED", "FAILED", "CANCELLED"), f"{job_id} ends", seconds)
        row = self.store.job(job_id)
        assert row is not None and row.state == state, row

    def idle(self) -> None:
        """Nothing is leased, waiting or left in a list."""
        self.until(lambda: not any(n.used for n in self.store.nodes()), "no lease is left")
        assert not any(self.store.queues().values()), self.store.queues()


@pytest.fixture
def bench(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("JETQ_BROKER_URL", redis_url)
    return Bench(redis_url)


@pytest.fixture
def start_node(bench: Bench, redis_url: str, tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def start(name: str = "a", slots: int = 2, **how: str) -> Node:
        node = Node(redis_url, name, slots, tmp_path / f"{name}.log", **how)
        nodes.append(node)
        bench.until(lambda: node.state == "up" or node.process.poll() is not None, "the lane is ready", 60)
        assert node.process.poll() is None, node.log.read_text()
        bench.until(lambda: any(n.state == "up" for n in bench.store.nodes()), "the node is up")
        return node

    yield start
    for node in nodes:
        node.close()
    for node in nodes:
        print(f"---- {node.name}\n{node.log.read_text()[-6000:]}")
