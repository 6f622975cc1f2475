"""Fewer frames on a hot node."""

from __future__ import annotations

from jetq.policy.stepdown import DOWN_S, UP_S, Level, allowed_fps, said
from jetq.policy.trim import Trips

HOT_C, WARM_C, COOL_C = 90.0, 82.0, 70.0


def after(level: Level, temp_c: float | None, cpu_busy: float | None, from_s: float, seconds: float) -> Level:
    for second in range(round(seconds) + 1):
        level = level.after(temp_c, cpu_busy, from_s + second, Trips())
    return level


def test_a_hot_node_steps_down_and_says_so():
    level = after(Level(), HOT_C, 0.5, 0.0, DOWN_S - 1)
    assert level.steps == 0
    level = after(level, HOT_C, 0.5, DOWN_S, 0)
    assert level.steps == 1

    assert allowed_fps(15, (10, 5), level) == 10
    assert said(15, (10, 5), level) == "10 of 15 fps: its node is hot (90 C; step 1 of 2)"
    assert said(None, (10, 5), level) == "10 of all frames fps: its node is hot (90 C; step 1 of 2)"


def test_busy_processors_count_too_and_what_is_unknown_does_not():
    assert after(Level(), None, 0.99, 0.0, DOWN_S).why == "processors 99% busy"
    assert after(Level(), None, None, 0.0, 500.0) == Level()
    assert after(Level(), float("nan"), -1.0, 0.0, 500.0) == Level()


def test_it_is_restored_step_by_step_once_the_node_has_cooled():
    level = after(Level(), HOT_C, 0.5, 0.0, 2 * DOWN_S)
    assert level.steps == 2
    level = after(level, WARM_C, 0.5, 100.0, 500.0)
    assert level.steps == 2

    level = after(level, COOL_C, 0.5, 1000.0, UP_S)
    assert level.steps == 1
    assert level.why
    level = after(level, COOL_C, 0.5, 1001.0 + UP_S, UP_S)
    assert level.steps == 0
    assert said(15, (10, 5), level) == ""
    assert allowed_fps(15, (10, 5), level) == 15


def test_a_moment_of_heat_or_cool_changes_nothing():
    level = Level()
    for second in range(0, 200, 10):
        level = after(level, HOT_C, 0.5, float(second), 4)
        level = after(level, COOL_C, 0.5, second + 5.0, 4)

    assert level.steps == 0


def test_who_declares_no_steps_keeps_its_frames_and_who_has_few_stays_at_the_last():
    level = after(Level(), HOT_C, 0.5, 0.0, 1000.0)

    assert level.steps == 8
    assert allowed_fps(15, (), level) == 15
    assert said(15, (), level) == ""
    assert allowed_fps(15, (10, 5), level) == 5


def test_it_goes_down_no_further_than_somebody_gets_less():
    level = Level()
    for second in range(200):
        level = level.after(HOT_C, 0.5, float(second), most=2)

    assert level.steps == 2
