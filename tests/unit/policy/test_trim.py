"""Trim: the smallest of factors, and what is never believed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.model.beat import Metrics
from jetq.policy import trim
from jetq.policy.health import Health
from jetq.policy.smooth import Smooth

GIB = 1024**3
ANY = st.none() | st.floats() | st.integers(-(10**18), 10**18)


def test_an_idle_node_and_one_that_knows_nothing_of_itself_are_untrimmed():
    assert trim.trim(Metrics()) == 1.0
    assert trim.trim(Metrics(cpu_busy=0.1, mem_used_bytes=GIB, mem_total_bytes=8 * GIB, temp_c=45.0)) == 1.0


@pytest.mark.parametrize(("temp_c", "factor"), [(74.0, 1.0), (80.0, 0.75), (85.0, 0.5), (104.5, 0.25), (200.0, 0.25)])
def test_heat_lowers_the_trim_from_ten_degrees_below_the_trip(temp_c, factor):
    assert trim.thermal(temp_c) == pytest.approx(factor)


def test_the_boards_own_trip_points_count():
    assert trim.thermal(80.0, trim.Trips(passive_c=95.0)) == 1.0


@pytest.mark.parametrize(("free", "factor"), [(0.5, 1.0), (0.2, 1.0), (0.14, 0.625), (0.08, 0.25), (0.01, 0.25)])
def test_little_memory_lowers_the_trim(free, factor):
    assert trim.memory((1 - free) * 8 * GIB, 8 * GIB) == pytest.approx(factor)


def test_factors_are_not_multiplied():
    metrics = Metrics(temp_c=85.0, mem_used_bytes=int(0.86 * 8 * GIB), mem_total_bytes=8 * GIB)

    assert trim.trim(metrics, foreign_cpu=0.3) == pytest.approx(0.5)


def test_one_beat_moves_the_trim_by_at_most_a_fifth():
    assert trim.trim(Metrics(temp_c=85.0), before=1.0) == pytest.approx(0.8)
    assert trim.trim(Metrics(), before=0.3) == pytest.approx(0.5)


@given(ANY, ANY, ANY, ANY, ANY, ANY, ANY)
def test_no_reading_however_broken_leaves_the_range(temp, used, total, cpu, gpu, failed, ended):
    metrics = Metrics(temp_c=temp, mem_used_bytes=used, mem_total_bytes=total)

    value = trim.trim(metrics, foreign_cpu=cpu, foreign_gpu=gpu, failed=failed, ended=ended)

    assert 0.25 <= value <= 1.0


@pytest.mark.parametrize("bad", [None, math.nan, -1.0, math.inf])
def test_absent_nan_and_negative_readings_change_nothing(bad):
    assert trim.trim(Metrics(temp_c=bad, mem_used_bytes=bad, mem_total_bytes=bad), foreign_cpu=bad, failed=bad) == 1.0
    assert trim.excluded(Metrics(temp_c=bad, mem_used_bytes=bad, mem_total_bytes=bad)) == ""


def test_a_node_without_memory_or_at_its_critical_trip_gets_no_new_work():
    assert "4.0%" in trim.excluded(Metrics(mem_used_bytes=96, mem_total_bytes=100))
    assert "critical" in trim.excluded(Metrics(temp_c=104.5))
    assert trim.excluded(Metrics(temp_c=99.0, mem_used_bytes=94, mem_total_bytes=100)) == ""


def test_own_work_is_not_called_foreign():
    health = Health()

    for second in range(60):
        value = health.observe(Metrics(cpu_busy=0.98), float(second), own_cpu=0.96)

    assert value == 1.0


def test_a_compiler_run_beside_the_jobs_lowers_the_trim_and_its_end_restores_it():
    health = Health()
    during = [health.observe(Metrics(cpu_busy=0.9), float(s), own_cpu=0.2) for s in range(60)]
    after = [health.observe(Metrics(cpu_busy=0.2), float(s), own_cpu=0.2) for s in range(60, 120)]

    assert during[-1] == pytest.approx(0.3, abs=0.02)
    assert after[-1] == 1.0


def test_load_that_cannot_be_told_apart_is_not_called_foreign():
    assert Health().observe(Metrics(cpu_busy=1.0), 0.0, own_cpu=None) == 1.0


def test_ten_failures_bring_the_trim_to_its_floor_and_a_quiet_minute_restores_it():
    health = Health()
    health.ended(0.0, ended=10, failed=10)

    failing = [health.observe(Metrics(), float(s)) for s in range(1, 6)]
    recovered = [health.observe(Metrics(), float(s)) for s in range(6, 61)]

    assert failing[-1] <= 0.35
    assert recovered[-1] >= 0.8


def test_one_failure_among_many_good_runs_is_no_verdict():
    health = Health()
    health.ended(0.0, ended=51, failed=1)
    health.ended(0.0, ended=51, failed=1)

    assert health.observe(Metrics(), 1.0) > 0.95


def test_a_smoothed_reading_forgets_in_its_own_time_and_skips_nonsense():
    value = Smooth(10.0).after(1.0, 0.0).after(math.nan, 1.0).after(-3.0, 2.0).after(None, 3.0)

    assert value.value == 1.0
    assert value.after(0.0, 10.0).value == pytest.approx(math.exp(-1))
