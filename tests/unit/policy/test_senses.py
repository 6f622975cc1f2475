"""Whether a node can be judged by its readings: absent, broken and frozen ones, and those that come back."""

from __future__ import annotations

import math

import pytest

from jetq.model.beat import Metrics
from jetq.policy.health import Health
from jetq.policy.senses import FROZEN_S, MISSING_S, Senses


def sane(second: int, **changes: object) -> Metrics:
    """One reading of a machine that lives."""
    return Metrics(**{"cpu_busy": 0.1, "mem_used_bytes": 1000 + second, "mem_total_bytes": 8000, **changes})


def test_a_machine_that_lives_is_believed():
    senses = Senses()

    assert {senses.why_blind(sane(second), float(second)) for second in range(60)} == {""}


@pytest.mark.parametrize("bad", [None, math.nan, -1.0, math.inf])
@pytest.mark.parametrize(("field", "what"), [("cpu_busy", "processors"), ("mem_used_bytes", "memory")])
def test_what_is_absent_or_makes_no_sense_for_some_seconds_is_blindness(bad, field, what):
    senses = Senses()

    answers = [senses.why_blind(sane(second, **{field: bad}), float(second)) for second in range(8)]

    assert answers[: int(MISSING_S)] == [""] * int(MISSING_S), "a node that starts has time"
    assert answers[-1] == f"nothing sane is known of its {what}"
    assert senses.why_blind(sane(8), 8.0) == ""


@pytest.mark.parametrize(
    "reading", [sane(0), Metrics(cpu_busy=0.1, mem_used_bytes=1, mem_total_bytes=2, load1=math.nan)]
)
def test_readings_that_never_change_are_frozen_though_the_broker_gets_slower(reading):
    senses = Senses()

    answers = [senses.why_blind(reading, float(second)) for second in range(12)]

    assert answers[: int(FROZEN_S)] == [""] * int(FROZEN_S)
    assert answers[-1] == "its readings have not changed for 11 s"
    assert senses.why_blind(sane(99), 12.0) == ""


def test_a_blind_node_is_worth_a_quarter_and_recovers_beat_by_beat():
    health = Health()

    blind = [health.observe(sane(second), float(second), blind=True) for second in range(6)]
    seeing = [health.observe(sane(second), float(second)) for second in range(6, 11)]

    assert blind[-1] == 0.25
    assert seeing == pytest.approx([0.45, 0.65, 0.85, 1.0, 1.0])
