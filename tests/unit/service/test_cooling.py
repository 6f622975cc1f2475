"""The streams of a node step down together, by what its beats say."""

from __future__ import annotations

import pytest

from jetq.clock import ManualClock
from jetq.policy.stepdown import DOWN_S, UP_S
from jetq.service.cooling import STALE_S, Cooling

HOT, COOL = {"temp_c": 99.0, "cpu_busy": 0.5}, {"temp_c": 50.0, "cpu_busy": 0.5}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def cooling(clock) -> Cooling:
    return Cooling(clock=clock)


def heard(cooling: Cooling, clock: ManualClock, metrics: dict, seconds: float) -> int:
    for _ in range(int(seconds)):
        clock.advance(1.0)
        cooling.heard(metrics)
    return cooling.level.steps


def test_a_hot_node_steps_down_and_back_up_once_it_has_cooled(cooling, clock) -> None:
    assert heard(cooling, clock, HOT, DOWN_S - 1) == 0
    assert heard(cooling, clock, HOT, 2) == 1
    assert "99 C" in cooling.level.why
    assert heard(cooling, clock, HOT, DOWN_S + 1) == 2

    assert heard(cooling, clock, COOL, UP_S + 2) == 1


def test_many_streams_that_hear_the_same_beat_count_it_once(cooling, clock) -> None:
    for _ in range(100):
        cooling.heard(HOT)
    assert heard(cooling, clock, HOT, DOWN_S - 2) == 0


def test_what_is_not_known_is_not_hot(cooling, clock) -> None:
    assert heard(cooling, clock, {}, 60) == 0
    assert heard(cooling, clock, {"temp_c": None, "cpu_busy": None}, 60) == 0


def test_a_node_that_had_no_streams_for_a_while_begins_anew(cooling, clock) -> None:
    heard(cooling, clock, HOT, 3 * DOWN_S)
    assert cooling.level.steps > 0
    clock.advance(STALE_S)

    assert heard(cooling, clock, COOL, 1) == 0


def test_two_hot_readings_with_a_gap_between_are_not_heat_that_lasts(cooling, clock) -> None:
    heard(cooling, clock, HOT, 1)
    clock.advance(STALE_S)

    assert heard(cooling, clock, HOT, 1) == 0
