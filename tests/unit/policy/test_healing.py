"""Which jobs are in nobody's hand."""

from __future__ import annotations

import pytest

from jetq.model.claim import Held
from jetq.model.survey import NodeView, Survey
from jetq.policy.healing import Healer


def node(
    *held: Held,
    seq: int = 1,
    state: str = "up",
    running: tuple[tuple[str, str], ...] = (),
    reserved: tuple[str, ...] = (),
    slots: int = 2,
) -> Survey:
    return Survey((NodeView("a", "e", seq, state, slots, frozenset(running), frozenset(reserved), held),))


def job(state: str, claimer: str = "", *, token: str = "0-t", on: str = "a") -> Held:
    return Held("j", state, token, claimer, on, "task")


def actions(healer: Healer, survey: Survey, now_s: float = 0.0) -> list[tuple[str, str]]:
    return [(v.job_id, v.action) for v in healer.look(survey, now_s)]


@pytest.mark.parametrize("state", ["RUNNING", "FINISHING"])
def test_a_run_that_two_beats_do_not_name_is_lost(state) -> None:
    healer, run = Healer(), job(state, "1.c")
    assert actions(healer, node(run, seq=7)) == []
    assert actions(healer, node(run, seq=8)) == []
    assert actions(healer, node(run, seq=9)) == [("j", "lost")]


def test_a_run_that_is_named_in_between_is_not() -> None:
    healer, run = Healer(), job("RUNNING", "1.c")
    healer.look(node(run, seq=7), 0.0)
    assert actions(healer, node(run, seq=9, running=(("j", "1.c"),))) == []
    assert actions(healer, node(run, seq=10)) == []
    assert actions(healer, node(run, seq=12)) == [("j", "lost")]


def test_another_claimer_of_the_same_job_does_not_keep_it() -> None:
    healer, run = Healer(), job("RUNNING", "1.c")
    healer.look(node(run, seq=1, running=(("j", "2.d"),)), 0.0)
    assert actions(healer, node(run, seq=3, running=(("j", "2.d"),))) == [("j", "lost")]


def test_nothing_is_lost_while_the_node_does_not_beat() -> None:
    healer, run = Healer(), job("RUNNING", "1.c")
    for now_s in range(60):
        assert actions(healer, node(run, seq=7), float(now_s)) == []


@pytest.mark.parametrize("state", ["dead", "gone"])
def test_what_an_absent_node_still_holds_is_picked_again_at_once(state) -> None:
    assert actions(Healer(), node(job("RUNNING", "1.c"), state=state)) == [("j", "lost")]
    assert actions(Healer(), node(job("ASSIGNED"), state=state)) == [("j", "again")]


@pytest.mark.parametrize("state", ["starting", "draining", "stopping"])
def test_what_lies_on_a_node_that_takes_nothing_is_picked_again_at_once(state) -> None:
    assert actions(Healer(), node(job("ASSIGNED"), state=state)) == [("j", "again")]


def test_a_message_in_nobodys_hand_is_looked_for_every_second_beat() -> None:
    healer, lies = Healer(), job("ASSIGNED")
    seen = [actions(healer, node(lies, seq=seq)) for seq in range(1, 8)]
    assert seen == [[], [], [("j", "find")], [], [("j", "find")], [], [("j", "find")]]


def test_a_message_that_a_lane_holds_is_not_looked_for() -> None:
    healer, popped = Healer(), job("ASSIGNED")
    for seq in range(60):
        assert actions(healer, node(popped, seq=seq, reserved=("j",)), float(seq)) == []


def test_a_message_that_a_free_lane_leaves_lying_is_stuck_after_ten_seconds() -> None:
    healer, lies = Healer(), job("ASSIGNED")
    healer.look(node(lies, seq=1), 0.0)
    busy = (("x", "1.c"), ("y", "2.d"))
    assert actions(healer, node(lies, seq=1, running=busy), 11.0) == []
    assert actions(healer, node(lies, seq=1), 11.0) == [("j", "stuck")]


def test_a_new_token_starts_over() -> None:
    healer = Healer()
    healer.look(node(job("ASSIGNED"), seq=1), 0.0)
    assert actions(healer, node(job("ASSIGNED", token="0-u"), seq=3)) == []


@pytest.mark.parametrize("held", [job(""), job("SUCCEEDED"), job("RUNNING", "1.c", on="b"), job("QUEUED", on="")])
def test_a_lease_of_a_job_that_is_not_there_is_freed_after_two_beats(held) -> None:
    healer = Healer()
    assert actions(healer, node(held, seq=1)) == []
    assert actions(healer, node(held, seq=3)) == [("j", "free")]


def test_the_jobs_that_wait_longest_are_looked_for_every_two_seconds_unless_a_lane_holds_them() -> None:
    healer = Healer()
    waits = Survey((), (("j", "0-t"),))
    assert [actions(healer, waits, t) for t in (0.0, 1.9, 2.0, 3.0, 4.0)] == [
        [],
        [],
        [("j", "push")],
        [],
        [("j", "push")],
    ]
    held = Survey(node(reserved=("j",)).nodes, waits.waiting)
    assert actions(healer, held, 60.0) == []


def test_what_was_seen_before_a_gap_does_not_count() -> None:
    healer, run = Healer(), job("RUNNING", "1.c")
    healer.look(node(run, seq=1), 0.0)

    healer.forget()

    assert actions(healer, node(run, seq=9)) == []


def test_claims_whose_end_the_broker_lost_cost_nothing() -> None:
    healer, run = Healer(), job("RUNNING", "1.c")
    healer.forgive(node(run))
    healer.look(node(run, seq=1), 0.0)

    assert actions(healer, node(run, seq=3)) == [("j", "again")]
