"""Who is silent for too long."""

from __future__ import annotations

from jetq.model.survey import NodeView, Survey
from jetq.policy.liveness import Watch


def survey(*nodes: tuple[str, int], state: str = "up", epoch: str = "e") -> Survey:
    return Survey(tuple(NodeView(name, epoch, seq, state, 2, frozenset(), frozenset(), ()) for name, seq in nodes))


def states(watch: Watch, seen: Survey, now_s: float) -> list[tuple[str, str]]:
    return [(j.node, j.state) for j in watch.look(seen, now_s)]


def test_a_silent_node_is_first_suspect_then_dead() -> None:
    watch = Watch(5.0)
    assert states(watch, survey(("a", 1), ("b", 1)), 0.0) == []
    assert states(watch, survey(("a", 1), ("b", 2)), 2.4) == []
    assert states(watch, survey(("a", 1), ("b", 3)), 2.5) == [("a", "suspect")]
    assert states(watch, survey(("a", 1), state="suspect"), 4.9) == []
    assert states(watch, survey(("a", 1), state="suspect"), 5.0) == [("a", "dead")]


def test_a_judgement_names_the_beat_that_was_heard_last() -> None:
    watch = Watch(5.0)
    watch.look(survey(("a", 7), epoch="e1"), 0.0)

    (judgement,) = watch.look(survey(("a", 7), epoch="e1"), 6.0)

    assert (judgement.epoch, judgement.seq) == ("e1", 7)
    assert "6.0 s" in judgement.why


def test_a_new_epoch_is_heard_of() -> None:
    watch = Watch(5.0)
    watch.look(survey(("a", 7), epoch="e1"), 0.0)

    assert states(watch, survey(("a", 7), epoch="e2"), 6.0) == []


def test_who_is_gone_or_dead_is_not_judged_again() -> None:
    watch = Watch(5.0)
    for state in ("gone", "dead"):
        watch.look(survey(("a", 1), state=state), 0.0)
        assert states(watch, survey(("a", 1), state=state), 60.0) == []


def test_after_a_gap_of_the_leader_everybody_has_the_whole_time_again() -> None:
    watch = Watch(5.0)
    watch.look(survey(("a", 1)), 0.0)

    watch.forget()

    assert states(watch, survey(("a", 1)), 60.0) == []
    assert states(watch, survey(("a", 1)), 65.0) == [("a", "dead")]


def test_whom_one_has_listened_to_before_one_led_is_dead_in_time() -> None:
    watch = Watch(5.0)
    watch.hear("a", "e", 7, 0.0)
    watch.hear("a", "e", 8, 1.0)
    watch.hear("a", "e", 8, 3.0)

    assert states(watch, survey(("a", 8), ("b", 1)), 5.9) == [("a", "suspect")]
    assert states(watch, survey(("a", 8), ("b", 1), state="suspect"), 6.0) == [("a", "dead")]
