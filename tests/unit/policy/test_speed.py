"""Learned speed: relative to the prior, per name, and only as far as the data carry."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.policy import speed
from jetq.policy.net import net, smooth_rtt


def ratio(factors: dict[str, float], a: str, b: str) -> float:
    return factors[a] / factors[b]


def test_steady_run_times_give_the_exact_ratio():
    learned = speed.factors({"fast": [1.0] * 20, "slow": [4.0] * 20}, {"fast": 1.0, "slow": 1.0})

    assert ratio(learned, "fast", "slow") == pytest.approx(4.0)


def test_a_right_prior_leaves_nothing_to_learn():
    learned = speed.factors({"fast": [1.0] * 20, "slow": [4.0] * 20}, {"fast": 4.0, "slow": 1.0})

    assert learned == pytest.approx({"fast": 1.0, "slow": 1.0})


def test_fewer_than_five_runs_teach_nothing():
    assert speed.factors({"fast": [1.0] * 4, "slow": [4.0] * 20}, {}) == {"fast": 1.0, "slow": 1.0}


def test_a_board_that_is_alone_has_nothing_to_compare_with():
    assert speed.factors({"fast": [1.0] * 20}, {"fast": 1.0}) == {"fast": 1.0}


def test_only_the_last_twenty_runs_count():
    learned = speed.factors({"a": [1.0] * 20 + [9.0] * 50, "b": [1.0] * 20}, {})

    assert learned == pytest.approx({"a": 1.0, "b": 1.0})


def test_one_stray_run_among_twenty_changes_little():
    learned = speed.factors({"a": [1.0] * 19 + [60.0], "b": [2.0] * 20}, {})

    assert ratio(learned, "a", "b") == pytest.approx(2.0)


def test_scattered_sizes_on_equal_boards_are_not_taken_for_speed():
    draw = random.Random(4)
    worst = 1.0
    for _ in range(200):
        runs = {board: [draw.expovariate(1.0) for _ in range(20)] for board in "ab"}
        learned = ratio(speed.factors(runs, {}), "a", "b")
        worst = max(worst, learned, 1 / learned)

    assert worst < 5.0
    errors = []
    for _ in range(200):
        runs = {board: [draw.expovariate(1.0) for _ in range(20)] for board in "ab"}
        errors.append(abs(math.log(ratio(speed.factors(runs, {}), "a", "b"))))
    assert sorted(errors)[100] < 0.1


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.floats() | st.floats(1e-6, 1e6), max_size=30)),
    st.dictionaries(st.sampled_from("abcd"), st.floats(0.01, 100)),
)
def test_factors_stay_in_range_whatever_was_measured(runs, priors):
    learned = speed.factors(runs, priors)

    assert learned.keys() == runs.keys()
    assert all(1 / speed.LIMIT <= f <= speed.LIMIT for f in learned.values())


def test_net_is_in_service_times_and_small_differences_stay_ties():
    assert net(0.0004) == net(0.0007) == 0.0
    assert net(0.05, service_s=0.5) == pytest.approx(0.1)
    assert net(0.0, payload_bytes=55e6, bandwidth_bps=110e6, service_s=1.0) == pytest.approx(0.5)
    assert net(99.0, service_s=0.001) == 10.0


@pytest.mark.parametrize("bad", [None, math.nan, -1.0, math.inf])
def test_net_takes_a_common_value_for_what_is_unknown(bad):
    assert net(bad, payload_bytes=bad, bandwidth_bps=bad, service_s=bad) == 0.0


def test_round_trips_are_smoothed():
    rtt = smooth_rtt()
    for second in range(60):
        rtt = rtt.after(0.5 if second == 30 else 0.01, float(second))

    assert rtt.value is not None
    assert rtt.value < 0.02
