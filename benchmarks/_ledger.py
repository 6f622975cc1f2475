"""The real thing in virtual time: picks by the ledger's own scripts on a real server, with the real policy code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks._fleet import Job, Machine
from benchmarks._simulate import Start
from jetq.ids import random64
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.job import JobState
from jetq.policy import boards, speed, strategies
from jetq.store import keys
from jetq.store.base import Order, Parcel
from jetq.store.redis import RedisStore

TASK = "bench.nap"
#: Learned speeds are set this often (s, virtual), as an agent does.
LEARN_EVERY_S = 1.0


def join(store: RedisStore, machines: Sequence[Machine]) -> list[str]:
    """Let every machine join the ledger and beat once as ``up``. Returns their epochs."""
    epochs = []
    labels = ("half",)  # every other machine carries it
    for number, m in enumerate(machines):
        rates = strategies.rates(m.slots, m.prior, 1.0)
        facts = NodeFacts(m.name, m.name, random64(), m.slots, 0, 0, m.board, labels[number % 2 :], "0")
        store.join(facts, rates, dead_s=5.0, tasks=[TASK])
        weight = strategies.Capacity(m.slots, m.prior, 1.0).weight
        store.beat(Beat(m.name, facts.epoch, 1, "up", rates, 0.0, weight, 1.0, Metrics()))
        epochs.append(facts.epoch)
    return epochs


def unknown_boards(machines: Sequence[Machine]) -> list[Machine]:
    """Return the same machines with boards that no prior table knows: every prior is 1."""
    kinds = sorted({m.board for m in machines})
    return [replace(m, board=f"board {kinds.index(m.board)}") for m in machines]


class LedgerDispatcher:
    """A dispatcher whose every step is the call that a producer, a lane or an agent makes."""

    def __init__(self, store: RedisStore, machines: Sequence[Machine], jobs: Sequence[Job], strategy: str) -> None:
        self._store = store
        self._machines = machines
        self._jobs = jobs
        self._order = Order(TASK, strategy=strategy)
        self._epochs = join(store, machines)
        self._index = {m.name: i for i, m in enumerate(machines)}
        self._shared = store.prefix + keys.with_priority(
            keys.shared_queue(self._order.needs.cohort), self._order.priority
        )
        self._tokens: dict[int, tuple[str, str]] = {}
        self._waiting = 0
        self._runs: dict[str, list[float]] = {}
        self._priors = {m.board: boards.prior(m.board) for m in machines}
        self._learned_at_s = 0.0

    def arrived(self, job: int, now_s: float) -> Iterable[Start]:
        """Publish it; where the script assigns a node, that node claims it."""
        self._learn(now_s)
        parcel = Parcel(f"j{job}", "0", "0", 0, str(job))
        placed = self._store.publish(self._order, [parcel])[0]
        if placed.node is None:
            self._waiting += 1
            return []
        return self._claim(job, self._index[placed.node])

    def ended(self, job: int, machine: int, now_s: float) -> Iterable[Start]:
        """Settle it; then the node pops the shared queue."""
        token, claimer = self._tokens.pop(job)
        if not self._store.settle(f"j{job}", token, claimer, JobState.SUCCEEDED.value):
            raise RuntimeError(f"the ledger refused the end of job {job}")
        m = self._machines[machine]
        self._runs.setdefault(m.board, []).insert(0, self._jobs[job].size_s / m.speed)
        self._learn(now_s)
        if not self._waiting:
            return []
        self._waiting -= 1
        return self._claim(int(self._store.client.rpop(self._shared)), machine)

    def _claim(self, job: int, machine: int) -> list[Start]:
        claim = self._store.claim(f"j{job}", "0", self._machines[machine].name, self._epochs[machine], f"c{job}")
        if claim.verdict != "run":
            raise RuntimeError(f"the claim of job {job} was answered {claim.verdict} ({claim.why})")
        self._tokens[job] = (claim.token, f"c{job}")
        return [(job, machine)]

    def _learn(self, now_s: float) -> None:
        """Do what an agent does each second. Run times are the virtual ones: the server's clock knows only its own."""
        if now_s - self._learned_at_s < LEARN_EVERY_S:
            return
        self._learned_at_s = now_s
        self._runs = {board: times[: speed.KEEP] for board, times in self._runs.items()}
        self._store.set_speeds(TASK, speed.factors(self._runs, self._priors))
