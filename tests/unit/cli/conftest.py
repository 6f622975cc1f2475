"""A cluster without processes: a real broker, and nodes that a test joins by hand."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from jetq import ids
from jetq.cli import main
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.claim import Claim
from jetq.policy import strategies
from jetq.store.redis import RedisStore, connect

#: Task names the nodes here have loaded.
TASKS = ("yard.count", "yard.nap")


class Yard:
    """One store, the nodes in it, and what runs on them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = RedisStore(connect(url), "jetq")
        self.epochs: dict[str, str] = {}

    def node(
        self, name: str, slots: int = 2, *labels: str, tasks: tuple[str, ...] = TASKS, address: str = "10.0.0.1"
    ) -> None:
        epoch = self.epochs[name] = ids.random64()
        facts = NodeFacts(
            *(name, f"id-{name}", epoch, slots, 0, 8 << 30, "pc", (f"node={name}", *labels), "0"),
            address=address,
            cores=6,
        )
        rates = strategies.rates(slots, 1.0, 1.0)
        self.store.join(facts, rates, dead_s=5, tasks=tasks)
        metrics = Metrics(cpu_busy=0.5, mem_used_bytes=1 << 30, mem_total_bytes=8 << 30, temp_c=41.0)
        self.store.beat(Beat(name, epoch, 1, "up", rates, 0.0, float(slots), 1.0, metrics))

    def claim(self, job_id: str) -> Claim:
        """Start a job that is assigned, as its node's lane would."""
        return self.claim_shared(job_id, self.store.client.hget(f"{self.store.prefix}job:{job_id}", "node").decode())

    def claim_shared(self, job_id: str, node: str) -> Claim:
        """Start a job that lies in a shared queue, as the lane of a node would."""
        pub = self.store.client.hget(f"{self.store.prefix}job:{job_id}", "pub").decode()
        return self.store.claim(job_id, pub, node, self.epochs[node], "c1")

    def end(self, job_id: str, state: str = "SUCCEEDED", *, result: object = None, error: str = "") -> None:
        """Run a job that is assigned to its end."""
        claim = self.claim(job_id)
        text = json.dumps(result) if state == "SUCCEEDED" else ""
        assert self.store.settle(job_id, claim.token, "c1", state, result=text, error=error)


@pytest.fixture
def yard(redis_url, monkeypatch) -> Yard:
    """Give an empty cluster that the environment names."""
    monkeypatch.setenv("JETQ_BROKER_URL", redis_url)
    return Yard(redis_url)


@pytest.fixture
def jetq(capsys) -> Callable[..., tuple[int, str, str]]:
    """Give ``jetq(word...) -> (exit code, stdout, stderr)``."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run
