"""`jetq node drain --wait`, and what ends the wait."""

from __future__ import annotations

import threading

import pytest

from jetq.model.beat import Beat, Metrics
from jetq.store.base import Order, Parcel


@pytest.fixture
def runs(yard) -> None:
    """Let one job run on node a."""
    yard.node("a")
    yard.store.publish(Order("yard.nap"), [Parcel("job-1", "pub", "digest", 0, "envelope")])
    yard.claim("job-1")


def test_the_wait_ends_when_nothing_is_left(yard, jetq, runs, wait_until):
    def end() -> None:
        wait_until(lambda: yard.store.nodes()[0].state == "draining")
        yard.store.lost("job-1", "a", "c1", "signal 15")

    thread = threading.Thread(target=end)
    thread.start()

    assert jetq("node", "drain", "a", "--wait")[:2] == (0, "a drained\n")
    thread.join()


def test_the_wait_ends_when_somebody_resumes_the_node(yard, jetq, runs, wait_until):
    def resume() -> None:
        wait_until(lambda: yard.store.nodes()[0].state == "draining")
        yard.store.resume("a")
        yard.store.beat(Beat("a", yard.epochs["a"], 2, "up", {}, 0.0, 2.0, 1.0, Metrics()))

    thread = threading.Thread(target=resume)
    thread.start()

    code, _, err = jetq("node", "drain", "a", "--wait")
    thread.join()
    assert (code, err) == (1, "jetq: node a does not drain any more: somebody has resumed it meanwhile\n")
