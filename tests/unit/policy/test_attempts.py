"""What follows when an attempt of a gang fails."""

from __future__ import annotations

import random

import pytest

from jetq.errors import UsageError
from jetq.policy.attempts import GOOD_RUN_S, Budget, Failure, Tally, judge, restart_bounds, root_cause

LOST = Failure(10.0, "infra", "b", "was lost")
EXIT = Failure(10.5, "app", "c", "exited with code 1", rank=2)


def test_the_first_failure_by_time_is_the_root_cause_whatever_the_order_of_the_reports():
    later = [Failure(11.0 + i, "app", "d", "was killed by signal 6", rank=i) for i in range(8)]
    reports = [LOST, EXIT, *later]
    random.Random(1).shuffle(reports)

    assert root_cause(reports) == LOST
    assert str(EXIT) == "rank 2 on c exited with code 1"
    for why, said in {
        "was lost: it was not heard of": "node c was lost: it was not heard of",
        "lost mpirun's daemon: prted was killed": "node c lost mpirun's daemon: prted was killed",
        "ended with code 3": "node c ended with code 3",
        "found port 29400 taken": "node c found port 29400 taken",
        "has no folder for it": "node c has no folder for it",
        "nosuchcmd is not installed": "node c: nosuchcmd is not installed",
        "torchrun exited with code 1": "node c: torchrun exited with code 1",
        "it has PyTorch 2.1": "node c: it has PyTorch 2.1",
        "node c has 1 slots": "node c has 1 slots",
    }.items():
        assert str(Failure(1.0, "none", "c", why)) == said


def test_at_the_same_moment_a_node_comes_before_its_ranks_and_then_the_lowest_rank():
    ranks = [Failure(10.0, "app", "b", "exited with code 1", rank=rank) for rank in (3, 0, 1)]

    assert root_cause(ranks).rank == 0
    assert root_cause([*ranks, LOST]) == LOST


def test_ranks_that_fail_because_a_node_was_lost_do_not_use_up_the_programs_retries():
    verdict = judge(Tally().begun(), [EXIT, LOST], Budget(), began_s=0.0, now_s=15.0)

    assert verdict.again
    assert (verdict.tally.infra, verdict.tally.app) == (1, 0)
    assert verdict.reason == "node b was lost; attempt 2 follows, retry 1 of 5 for failures of nodes"


def test_a_program_that_fails_is_not_run_again_unless_asked():
    verdict = judge(Tally().begun(), [EXIT], Budget(), began_s=0.0, now_s=15.0)

    assert not verdict.again
    assert verdict.reason == "rank 2 on c exited with code 1; there is no retry for failures of the program"


def test_each_budget_is_used_up_by_its_own_failures():
    tally, again = Tally(), []
    for failure in (EXIT, LOST, EXIT, LOST, EXIT):
        verdict = judge(tally.begun(), [failure], Budget(infra=5, app=2), began_s=0.0, now_s=15.0)
        tally = verdict.tally
        again.append(verdict.again)

    assert again == [True, True, True, True, False]
    assert tally == Tally(attempt=5, infra=2, app=3)
    assert verdict.reason.endswith("all 2 retries for failures of the program are used up")


def test_the_sixth_lost_node_in_a_row_ends_a_gang_and_a_good_run_between_does_not():
    def run(lengths_s: list[float]) -> bool:
        tally = Tally()
        for length_s in lengths_s:
            verdict = judge(tally.begun(), [LOST], Budget(), began_s=0.0, now_s=length_s)
            tally = verdict.tally
        return verdict.again

    assert not run([15.0] * 6)
    assert run([15.0] * 5 + [GOOD_RUN_S + 1.0] + [15.0] * 4)
    assert not run([15.0] * 5 + [GOOD_RUN_S + 1.0] + [15.0] * 5)


def test_a_refusal_costs_nothing_and_takes_no_attempt_number():
    refusal = Failure(10.0, "none", "b", "has no port left")

    verdict = judge(Tally(attempt=1, infra=5), [refusal], Budget(), began_s=0.0, now_s=15.0)

    assert verdict.again
    assert verdict.tally == Tally(attempt=1, infra=5)


def test_the_first_lost_node_is_answered_at_once_and_later_failures_after_a_pause():
    def pause(tally: Tally, failure: Failure) -> float:
        return judge(tally, [failure], Budget(app=9), began_s=90.0, now_s=100.0).not_before_s - 100.0

    assert [pause(Tally(1, infra=n), LOST) for n in (0, 1, 2)] == [0.0, 5.0, 10.0]
    assert [pause(Tally(1, app=n), EXIT) for n in (0, 1, 2)] == [5.0, 10.0, 20.0]


def test_a_gang_restarts_smaller_only_where_all_nodes_see_its_checkpoints():
    assert restart_bounds(2, 8, 6, shared=True) == (2, 8, "")
    least, most, why = restart_bounds(2, 8, 6, shared=False)
    assert (least, most) == (6, 8)
    assert "JETQ_SHARED" in why
    assert restart_bounds(4, 4, 4, shared=False) == (4, 4, "")


def test_a_negative_budget_is_refused():
    with pytest.raises(UsageError, match="retries must be 0 or more, not -1"):
        Budget(infra=-1)
