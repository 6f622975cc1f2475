"""A job that no node knows or can ever serve is refused with the reason, one clear line."""

from __future__ import annotations

import pytest

from jetq.model.beat import NodeRow
from jetq.model.needs import Needs
from jetq.policy.admission import knowers, unknown, unserved


def node(name: str, *labels: str, state: str = "up", slots: int = 2) -> NodeRow:
    return NodeRow(
        name, state, slots, 0.0, float(slots), {}, 1.0, list(labels), "pc", 0.1, {"mem_total_bytes": 8 << 30}
    )


def test_a_task_that_some_node_has_loaded_is_known():
    assert unknown("yard.count", {"a": {"yard.count"}}) is None


def test_without_any_node_every_name_may_wait():
    assert unknown("yard.count", {}) is None
    assert unserved("yard.count", Needs(), [], {}) is None


def test_an_unknown_task_is_answered_with_the_nearest_names():
    said = str(unknown("yard.cuont", {"a": {"yard.count"}, "b": {"demo.nap"}}))

    assert "no node knows a task called 'yard.cuont'; did you mean yard.count?" in said


def test_an_unknown_task_without_a_near_name_is_answered_with_some_that_exist():
    said = str(unknown("q", {"a": {f"yard.t{number}" for number in range(9)}}))

    assert "they know yard.t0, yard.t1" in said
    assert said.endswith(", …")


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (Needs(labels=("zone=yard",)), "a does not carry zone=yard"),
        (Needs(gpu=1), "a has no GPU"),
        (Needs(slots=3), "a has 2 slots, the job needs 3"),
        (Needs(mem_bytes=16 << 30), "a has 8.0 GiB of memory, the job needs 16.0"),
    ],
)
def test_what_nobody_can_serve_is_refused_with_the_reason_of_each_node(needs, why):
    assert why in str(unserved("t", needs, [node("a")], {}))


def test_one_node_that_could_serve_is_enough_even_when_it_is_late():
    assert unserved("t", Needs(labels=("zone=yard",)), [node("a"), node("b", "zone=yard", state="stale")], {}) is None


def test_a_node_that_is_gone_serves_nothing():
    assert "no node is there" in str(unserved("t", Needs(labels=("x",)), [node("a", "x", state="gone")], {}))


def test_plain_work_is_never_refused():
    assert unserved("t", Needs(), [], {}) is None


def test_many_nodes_are_named_in_part():
    assert str(unserved("t", Needs(gpu=1), [node(f"n{number}") for number in range(9)], {})).count("has no GPU") == 4


def test_nodes_that_do_not_know_the_task_serve_it_as_little_as_those_without_the_label():
    nodes = [node("a", "zone=yard"), node("b"), node("old", "zone=yard", state="gone")]
    loaded = {"a": {"t.one"}, "b": {"t.one", "t.two"}, "old": {"t.two"}}

    assert unserved("t.two", Needs(), nodes, loaded) is None
    said = str(unserved("t.two", Needs(labels=("zone=yard",)), nodes, loaded))
    assert "a does not know the task t.two; b does not carry zone=yard" in said
    assert said.endswith("(wait for one: wait_for_node=True)")


def test_a_task_that_only_a_node_knows_which_is_gone_is_refused():
    loaded = {"a": {"t.one"}, "old": {"t.two"}}

    said = str(unserved("t.two", Needs(), [node("a"), node("old", state="gone")], loaded))

    assert "a does not know the task t.two" in said


def test_without_a_node_that_is_there_plain_work_waits():
    assert unserved("t.two", Needs(), [node("old", state="gone")], {"old": {"t.two"}}) is None


def test_nobody_says_that_it_knows_celerys_own_tasks():
    assert knowers("celery.group", {"a": {"t.one"}}) is None
    assert knowers("t.one", {"a": {"t.one"}, "b": set()}) == {"a"}
