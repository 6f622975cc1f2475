"""Task events cost round trips: a lane sends them only while somebody, as Flower does, asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks._fleet import Machine
from benchmarks._workers import Kind, settings, workers
from jetq import wire


@pytest.mark.timeout(120)
def test_a_node_sends_task_events_once_flower_asks(redis_url: str, wait_until: Callable[..., Any]):
    app = wire.create_app(settings(redis_url), redis_url, current=False)
    seen: list[str] = []

    with workers(Kind(routed=True), redis_url, [Machine("n1", 1, 1.0, "pc")]), app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["type"])})
        listener = threading.Thread(target=receiver.capture, kwargs={"timeout": 60, "wakeup": False})
        listener.start()
        wait_until(lambda: "worker-heartbeat" in seen, 30, "the first heartbeat")
        app.send_task("bench.noop", (1,)).get(timeout=30)
        silent = not [kind for kind in seen if kind.startswith("task-")]

        asked = app.control.enable_events(reply=True, timeout=5)
        app.send_task("bench.noop", (2,)).get(timeout=30)
        wait_until(lambda: "task-succeeded" in seen, 30, "the event of the second task")
        receiver.should_stop = True
        listener.join(30)

    assert silent
    assert len(asked) == 2  # both lanes
