"""What the soak submits: a random mix, and what each job must come to."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from celery import Celery, Signature, chain, chord

from jetq import ids
from jetq.errors import BrokerError, JetqError, PublishUnknown
from jetq.store.redis import RedisStore

#: Longest nap of a body (s).
NAP_S = 1.5
#: An unknown outcome is sent again with the same id, for so long (s).
PATIENCE_S = 120.0


@dataclass(slots=True)
class Ledgered:
    """What was accepted: job id -> the states it may end in."""

    want: dict[str, frozenset[str]] = field(default_factory=dict)
    sends: int = 0
    again: int = 0  # sends whose outcome was unknown

    def add(self, job_id: str, *states: str) -> None:
        """Keep a job that jetq has taken."""
        self.want[job_id] = frozenset(states)


class Load:
    """One producer. ``step`` sends one thing."""

    def __init__(self, app: Celery, store: RedisStore, rng: random.Random) -> None:
        self._app = app
        self._store = store
        self._rng = rng
        self.taken = Ledgered()

    def step(self) -> None:
        """Send one thing, or cancel one."""
        kinds = [
            self._single,
            self._retry,
            self._crash,
            self._chain,
            self._chord,
            self._later,
            self._cancelled,
            self._odd,
        ]
        self._rng.choices(kinds, weights=[40, 8, 6, 8, 5, 8, 6, 2])[0]()

    def _nap(self) -> float:
        return round(self._rng.random() ** 3 * NAP_S, 3)

    def _task(self, name: str, *args: object, **kwargs: object) -> str:
        job_id = ids.new_job_id()
        self._insist(lambda: self._app.send_task(name, args, kwargs, task_id=job_id))
        return job_id

    def _insist(self, send: Callable[[], object]) -> None:
        """Send until the outcome is known: the same ids, so nothing is there twice."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.taken.sends += 1
                send()
            except (PublishUnknown, BrokerError):
                self.taken.again += 1
                if time.monotonic() > end_s:
                    raise
            else:
                return

    def _single(self) -> None:
        name = self._rng.choice(["soak.work", "soak.work", "soak.work", "soak.tree"])
        self.taken.add(self._task(name, nap_s=self._nap()), "SUCCEEDED")

    def _retry(self) -> None:
        self.taken.add(self._task("soak.retries", self._rng.randint(1, 3), nap_s=self._nap()), "SUCCEEDED")

    def _crash(self) -> None:
        self.taken.add(self._task("soak.crashes", nap_s=self._nap()), "SUCCEEDED", "FAILED")

    def _odd(self) -> None:
        self.taken.add(self._task(self._rng.choice(["soak.poison", "soak.fails"])), "FAILED")

    def _signature(self, **kwargs: float) -> Signature:
        return self._app.signature("soak.work", kwargs=kwargs, task_id=ids.new_job_id())

    def _chain(self) -> None:
        steps = [
            self._app.signature("soak.work", kwargs={"nap_s": self._nap()}, task_id=ids.new_job_id()) for _ in range(3)
        ]
        self._insist(lambda: chain(*steps).apply_async())
        for one in steps:
            self.taken.add(one.options["task_id"], "SUCCEEDED")

    def _chord(self) -> None:
        head = [
            self._app.signature("soak.work", kwargs={"nap_s": self._nap()}, task_id=ids.new_job_id()) for _ in range(4)
        ]
        body = self._app.signature("soak.work", task_id=ids.new_job_id())
        self._insist(lambda: chord(head, body).apply_async())
        for one in (*head, body):
            self.taken.add(one.options["task_id"], "SUCCEEDED")

    def _later(self) -> None:
        job_id = ids.new_job_id()
        self._insist(
            lambda: self._app.send_task(
                "soak.work", kwargs={"nap_s": 0.0}, task_id=job_id, countdown=self._rng.random() * 10
            )
        )
        self.taken.add(job_id, "SUCCEEDED")

    def _cancelled(self) -> None:
        job_id = self._task("soak.work", nap_s=self._nap() * 3)
        self.taken.add(job_id, "SUCCEEDED", "CANCELLED")
        try:
            self._store.cancel(job_id, "the soak changed its mind")
        except JetqError:
            return  # the broker is away: it runs
