"""How long jobs are taken to run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.policy import runtime


@pytest.mark.parametrize(
    ("runs", "limit_s", "predicted_s"),
    [
        ([100.0, 300.0, 9999.0], None, 200.0),
        ([100.0], None, 100.0),
        ([], None, runtime.GANG_S),
        ([], 100.0, 50.0),
        ([100.0, 300.0], 150.0, 150.0),  # it is killed then
        ([math.nan, -5.0, math.inf, 40.0], None, 40.0),
    ],
)
def test_a_gang_is_predicted_by_the_mean_of_the_last_two_runs_of_its_name(runs, limit_s, predicted_s):
    assert runtime.of_gang(runs, limit_s=limit_s) == predicted_s


def test_a_task_is_predicted_by_the_median_of_its_runs():
    assert runtime.of_task([1.0, 900.0, 2.0]) == 2.0
    assert runtime.of_task([]) == runtime.TASK_S
    assert runtime.of_task([0.0]) > 0.0


def test_a_prediction_that_was_exceeded_grows_in_steps():
    ends = [runtime.end_s(1000.0, 100.0, 1000.0 + elapsed_s) for elapsed_s in (0.0, 99.0, 100.0, 149.0, 150.0)]

    assert ends == [1100.0, 1100.0, 1150.0, 1150.0, 1225.0]


def test_a_job_is_not_taken_to_outlive_its_time_limit():
    assert runtime.end_s(0.0, 100.0, 110.0, limit_s=120.0) == 120.0
    assert runtime.end_s(0.0, 100.0, 121.0, limit_s=120.0) == 121.0 + runtime.KILL_S


@given(
    st.floats(0, 2e9),
    st.floats(0, 1e7),
    st.floats(0, 1e7),
    st.none() | st.floats(0.001, 1e7),
)
def test_what_still_runs_always_ends_later_than_now(started_s, predicted_s, elapsed_s, limit_s):
    now_s = started_s + elapsed_s

    assert now_s < runtime.end_s(started_s, predicted_s, now_s, limit_s=limit_s) < math.inf
