"""The deadline of a run, with a clock moved by hand."""

from __future__ import annotations

import pytest

from jetq import page
from jetq.clock import ManualClock
from jetq.service.fence import REJOIN, UNPLANNED, Fence, Over


class Seen:
    """A proof that is what the test says."""

    def __init__(self, at_s: float | None) -> None:
        self.at_s = at_s

    def look(self) -> float | None:
        return self.at_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def fence(clock) -> Fence:
    return Fence(dead_s=5, clock=clock)


@pytest.fixture
def lane(fence):
    shared, _ = page.create(1)
    fence.cover("tasks", shared)
    return shared


def test_a_run_that_has_not_joined_has_no_deadline(fence, clock, lane):
    fence.heed(Seen(1000.0))
    clock.advance(3600)

    assert fence.over is None
    assert lane.good_until_s == 0


def test_work_may_go_on_until_four_seconds_after_the_start_of_the_last_beat(fence, clock, lane):
    fence.accepted(999.0)
    assert lane.good_until_s == 1003.0
    clock.advance(3)
    assert fence.over is None

    clock.advance(0.1)

    assert fence.over.code == REJOIN


def test_a_lane_that_starts_later_gets_the_deadline_too(fence):
    fence.accepted(1000.0)
    late, _ = page.create(1)

    fence.cover("plain", late)
    assert late.good_until_s == 1004.0
    fence.accepted(1001.0)

    assert late.good_until_s == 1005.0


def test_an_older_beat_or_proof_takes_nothing_back(fence, lane):
    fence.accepted(1000.0)

    fence.accepted(998.0)
    fence.heed(Seen(999.0))

    assert lane.good_until_s == 1004.0


def test_a_broker_that_is_down_puts_it_off_and_one_out_of_reach_does_not(fence, clock, lane):
    fence.accepted(1000.0)
    clock.advance(3)
    fence.heed(Seen(1002.5))
    assert lane.good_until_s == 1006.5

    clock.advance(3.6)
    fence.heed(Seen(None))

    assert fence.over.code == REJOIN


def test_once_it_has_passed_nothing_puts_it_off(fence, clock, lane):
    fence.accepted(1000.0)
    clock.advance(10)

    fence.accepted(1010.0)
    fence.heed(Seen(1010.0))

    assert fence.over.code == REJOIN
    assert lane.good_until_s == 1004.0


@pytest.mark.parametrize(
    ("reason", "code"), [("replaced", UNPLANNED), ("dead", REJOIN), ("gone", REJOIN), ("unknown", REJOIN)]
)
def test_a_refused_run_ends_for_good_only_where_another_one_has_taken_over(fence, reason, code):
    fence.refused(reason)

    assert fence.over.code == code


def test_the_first_reason_stands(fence):
    fence.end(Over("its guard was killed", UNPLANNED))

    fence.refused("dead")

    assert fence.over == Over("its guard was killed", UNPLANNED)


def test_beats_are_steady_since_the_first_of_an_unbroken_row(fence, clock):
    for _ in range(4):
        fence.accepted(clock())
        clock.advance(1)
    assert fence.steady_since_s == 1000.0

    clock.advance(1.9)
    assert fence.steady_since_s == clock()
    fence.accepted(clock())

    assert fence.steady_since_s == clock()


def test_a_run_that_has_stopped_all_its_work_ends_by_its_plan_however_long_that_takes(fence, clock, lane):
    fence.accepted(1000.0)

    fence.lift()

    clock.advance(60)
    fence.refused("gone")
    assert fence.over is None


def test_a_run_that_was_over_when_its_work_had_stopped_stays_so(fence, clock, lane):
    fence.accepted(1000.0)
    clock.advance(60)

    fence.lift()

    assert fence.over.code == REJOIN
