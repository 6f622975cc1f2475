"""What becomes of a gang, from where its members are."""

from __future__ import annotations

from dataclasses import replace

from jetq.model.gang import GangSpec
from jetq.model.job import JobState
from jetq.model.members import Fault, GangView, MemberView, Report
from jetq.policy.gangsteps import PREPARE_S, REFUSALS, End, Stop, next_step

NOW = 1000.0


def member(index: int, report: Report | None = None, *, state: JobState | None = None, **how) -> MemberView:
    state = state or (JobState.SUCCEEDED if report else JobState.RUNNING)
    given = {"error": "", "cost": "none", "ended_s": NOW} | how
    return MemberView(f"g.1.{index}", index, "abcd"[index], state, report, **given)


def lost(index: int, cost: str = "infra", at_s: float = NOW - 5) -> MemberView:
    return member(index, state=JobState.FAILED, error="it was not heard of", cost=cost, ended_s=at_s)


def gang(*members: MemberView, **how) -> GangView:
    spec = how.pop("spec", GangSpec(("true",), len(members), len(members)))
    given = dict(  # noqa: C408
        state=JobState.RUNNING,
        submitted_s=0.0,
        starts=1,
        attempt=1,
        over_streams=False,
        cancel_asked=False,
        stopping="",
        reserved_s=NOW - 10,
        started_s=NOW - 9,
        not_before_s=0.0,
        least=len(members),
        most=len(members),
        tally={},
        members=members,
        arrived=frozenset(range(len(members))),
    )
    return GangView("g", spec, **(given | how))


OK = Report(0)
FAILED = Report(1, (Fault(NOW - 1, "app", "exited with code 3", rank=1),), tail=("boom",))
STOPPED = Report(None, stopped=True)


def test_nothing_is_done_while_members_run() -> None:
    assert next_step(gang(member(0), member(1)), NOW) is None
    assert next_step(gang(member(0, OK), member(1)), NOW) is None


def test_a_gang_whose_members_all_ended_well_has_succeeded() -> None:
    assert next_step(gang(member(0, OK), member(1, OK)), NOW) == End(JobState.SUCCEEDED, "", 0)


def test_the_others_are_stopped_when_a_rank_has_failed_and_told_once() -> None:
    failing = gang(member(0), member(1, FAILED))

    assert next_step(failing, NOW) == Stop("rank 1 on b exited with code 3")
    assert next_step(replace(failing, stopping="rank 1 on b exited with code 3"), NOW) is None


def test_a_failed_program_is_the_end_with_its_code_and_last_lines() -> None:
    step = next_step(gang(member(0, STOPPED), member(1, FAILED), stopping="x"), NOW)

    assert isinstance(step, End)
    assert (step.state, step.exit_code, step.tail) == (JobState.FAILED, 1, ("boom",))
    assert "rank 1 on b exited with code 3" in step.why


def test_of_a_rank_elsewhere_the_code_and_last_lines_are_those_that_the_head_has_told() -> None:
    told = Report(3, (Fault(NOW - 1, "app", "exited with code 3", rank=1, node="b"),), tail=("boom",))

    step = next_step(gang(member(0, told), member(1, STOPPED), stopping="x"), NOW)

    assert isinstance(step, End)
    assert (step.exit_code, step.tail) == (3, ("boom",))
    assert "rank 1 on b exited with code 3" in step.why


def test_a_failed_program_is_tried_again_as_often_as_asked() -> None:
    spec = GangSpec(("true",), 2, 2, retries=1)
    failing = gang(member(0, STOPPED), member(1, FAILED), stopping="x", spec=spec)

    again = next_step(failing, NOW)
    assert (again.state, again.tally.app) == (JobState.QUEUED, 1)
    assert next_step(replace(failing, tally={"app": 1}), NOW).state is JobState.FAILED


def test_a_lost_node_is_the_cause_though_the_ranks_beside_it_failed_before_it_was_missed() -> None:
    step = next_step(gang(lost(0, at_s=NOW - 5), member(1, FAILED), stopping="x"), NOW)

    assert (step.state, step.tally.infra, step.tally.app) == (JobState.QUEUED, 1, 0)
    assert step.why.startswith("node a was lost: it was not heard of")
    assert step.bounds == (2, 2)


def test_a_lost_lane_is_told_late_and_still_is_the_cause() -> None:
    step = next_step(gang(lost(0, at_s=NOW), member(1, FAILED), stopping="x"), NOW)

    assert step.tally.infra == 1


def test_lost_nodes_have_a_budget_of_their_own() -> None:
    step = next_step(gang(lost(0), member(1, STOPPED), stopping="x", tally={"infra": 5}), NOW)

    assert step.state is JobState.FAILED
    assert "all 5 retries" in step.why


def test_a_smaller_restart_needs_shared_checkpoints() -> None:
    spec = GangSpec(("true",), 1, 2)
    failing = gang(lost(0), member(1, STOPPED), stopping="x", spec=spec)

    assert next_step(replace(failing, shared=True), NOW).bounds == (1, 2)
    step = next_step(failing, NOW)
    assert step.bounds == (2, 2)
    assert "JETQ_SHARED" in step.why


def test_a_drained_node_costs_nothing() -> None:
    step = next_step(gang(member(0, STOPPED), member(1), members=(member(0, STOPPED), member(1))), NOW)
    assert isinstance(step, Stop)

    end = next_step(gang(member(0, STOPPED), member(1, STOPPED)), NOW)
    assert (end.state, end.tally.infra, end.tally.app) == (JobState.QUEUED, 0, 0)


def test_a_cancelled_gang_is_cancelled_whatever_its_members_say() -> None:
    cancelled = gang(member(0, STOPPED), member(1, FAILED), cancel_asked=True, reason="enough")

    assert next_step(cancelled, NOW) == End(JobState.CANCELLED, "enough")


def test_who_does_not_answer_in_time_is_named_and_left_alone_for_a_while() -> None:
    waits = gang(
        member(0), member(1, state=JobState.ASSIGNED), state=JobState.PREPARING, started_s=None, arrived=frozenset({0})
    )
    assert next_step(replace(waits, reserved_s=NOW - 1), NOW) is None

    late = next_step(replace(waits, reserved_s=NOW - PREPARE_S - 1), NOW)
    assert late == Stop("it was not ready within 30 s: b has not answered")

    ended = (member(0, STOPPED), member(1, state=JobState.CANCELLED))
    end = next_step(replace(waits, members=ended, stopping=late.why), NOW)
    assert (end.state, end.refused, end.resting) == (JobState.QUEUED, 1, (("b", "has not answered in time"),))
    assert end.tally.infra == 0


def test_a_node_that_refuses_is_named_and_the_gang_waits_without_a_charge() -> None:
    refusal = Report(None, (Fault(NOW, "none", "has no PyTorch", node="b"),))
    refusing = gang(member(0, refusal), member(1, refusal), state=JobState.PREPARING, started_s=None, attempt=0)

    end = next_step(refusing, NOW)

    assert (end.state, end.refused, end.resting) == (JobState.QUEUED, 1, (("b", "has no PyTorch"),))
    assert end.why == "node b has no PyTorch; no retry is charged"
    sentence = Report(None, (Fault(NOW, "none", "nosuchcmd is not installed", node="b"),))
    assert next_step(replace(refusing, members=(member(0, sentence), member(1, sentence))), NOW).why.startswith(
        "node b: nosuchcmd is not installed; "
    )
    assert next_step(replace(refusing, tally={"refused": REFUSALS}), NOW).state is JobState.FAILED


def test_a_command_that_cannot_start_anywhere_is_the_end() -> None:
    refusal = Report(None, (Fault(NOW, "app", "cannot start 'trian.py': no such program", node="b"),))
    refusing = gang(member(0, refusal), member(1, refusal), state=JobState.PREPARING, started_s=None, attempt=0)

    end = next_step(refusing, NOW)

    assert (end.state, end.exit_code) == (JobState.FAILED, 1)
    assert "no such program" in end.why


def test_a_gang_that_ran_into_its_time_limit_ends_with_124_and_blames_no_node() -> None:
    late = Report(124, (Fault(NOW, "app", "the gang ran longer than its time limit of 5 s (exit code 124)"),))

    end = next_step(gang(member(0, late), member(1, STOPPED), stopping="x"), NOW)

    assert (end.state, end.exit_code) == (JobState.FAILED, 124)
    assert end.why.startswith("the gang ran longer than its time limit of 5 s (exit code 124); ")
