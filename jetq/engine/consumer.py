"""The lane's Celery consumer: our request class, our tracers, and an end for messages that cannot run."""

from __future__ import annotations

from typing import Any

from celery.worker.consumer import Consumer as Stock
from celery.worker.state import maybe_shutdown

from jetq.clock import boot_s
from jetq.engine.request import LaneSide, Request
from jetq.engine.run import Tracer
from jetq.log import Log
from jetq.page import Page
from jetq.service.patience import patiently

#: A lane tries to reach a broker that is away so often (s); Celery would wait longer each time, up to 30 s.
RETRY_S = 1.0

log = Log("lane")


class Consumer(Stock):
    """Celery's consumer with the ledger's hooks."""

    #: Set where tasks run in this process (threads); pool children make their own.
    tracer: Tracer | None = None
    page: Page  # of this lane; set before it starts

    def update_strategies(self) -> None:
        """Give every task our request class, and wrap its tracer where it runs here."""
        for task in self.app.tasks.values():
            task.Request = f"{Request.__module__}:{Request.__qualname__}"
        super().update_strategies()
        if self.tracer is not None:
            self.tracer.wrap_all(self.hostname)

    def ensure_connected(self, conn: Any) -> Any:
        """Connect, and go on trying. A lane that waits for its broker does not hang: it says that it turns."""
        failures: list[Exception] = []

        def failed(exc: Exception, _interval: float) -> None:
            if not failures:
                log.warning("lane.waits_for_broker", why=exc)
            failures[:] = [exc]

        def waits() -> None:
            self.page.tick_s = boot_s()
            maybe_shutdown()

        conn = conn.ensure_connection(
            failed, None, interval_start=RETRY_S, interval_step=0, interval_max=RETRY_S, callback=waits
        )
        if failures:
            log.info("lane.goes_on")
        self.first_connection_attempt = False
        return conn

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Hand on a job whose task this node does not know; it ends where no other node knows it."""
        job_id, pub = message.headers.get("id"), message.headers.get("jetq_pub")
        if not pub:
            super().on_unknown_task(body, message, exc)
            return
        now = patiently(LaneSide.store.misfit, job_id, pub, LaneSide.node)
        log.warning("task.unknown", job=job_id, task=message.headers.get("task"), now=now or "not ours")
        if now == "FAILED":
            super().on_unknown_task(body, message, exc)
            patiently(LaneSide.store.told, job_id)
        else:
            message.ack()

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """End a job whose message cannot be read."""
        super().on_invalid_task(body, message, exc)
        _drop(message, f"the message is invalid: {exc}")


def _drop(message: Any, why: str) -> None:
    headers = message.headers or {}
    if headers.get("jetq_pub"):
        patiently(LaneSide.store.drop, headers["id"], headers["jetq_pub"], LaneSide.node, "FAILED", why)
        patiently(LaneSide.store.told, headers["id"])
