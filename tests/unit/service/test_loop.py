"""Loops outlive bad turns, and an outage is told once."""

from __future__ import annotations

import logging
import threading

import pytest

from jetq.clock import boot_s
from jetq.errors import BrokerDown
from jetq.service.loop import Loop, Outage


@pytest.fixture
def told(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("jetq"), "propagate", True)
    caplog.set_level(logging.INFO, logger="jetq")
    return lambda: [record.getMessage().split()[0] for record in caplog.records]


def test_a_loop_goes_on_after_a_bad_turn_and_says_which(told):
    done = threading.Event()
    turns = []

    def turn():
        turns.append(1)
        if len(turns) == 1:
            raise ZeroDivisionError("bad")
        done.set()

    loop = Loop("odd", 0.01, turn, Outage())
    loop.start()

    assert done.wait(10)
    loop.stop()
    assert told() == ["loop.failed"]


def test_a_loop_whose_turn_failed_rests_so_that_the_log_has_an_end(monkeypatch):
    monkeypatch.setattr("jetq.service.loop.FAILED_S", 0.3)
    again = threading.Event()
    at_s = []

    def turn():
        at_s.append(boot_s())
        if len(at_s) == 1:
            raise ZeroDivisionError("bad")
        again.set()

    loop = Loop("odd", 0.001, turn, Outage())
    loop.start()

    assert again.wait(10)
    loop.stop()
    assert at_s[1] - at_s[0] >= 0.3


def test_a_stopped_loop_takes_no_more_turns():
    turns = []
    first = threading.Event()
    loop = Loop("x", 3600, lambda: (turns.append(1), first.set()), Outage())
    loop.start()
    assert first.wait(10)

    loop.stop()

    assert len(turns) == 1


def test_an_outage_is_told_once_and_its_end_once(told):
    outage = Outage()

    for _ in range(3):
        outage.found(BrokerDown("away"))
    for _ in range(3):
        outage.over()

    assert told() == ["broker.away", "broker.back"]
