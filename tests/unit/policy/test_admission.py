"""A job that no node knows or can ever serve is refused with the reason, one clear line."""

from __future__ import annotations

import pytest

from jetq.model.beat import NodeRow
from jetq.model.needs import Needs
from jetq.policy.admission import unknown, unserved


def node(name: str, *labels: str, state: str = "up", slots: int = 2) -> NodeRow:
    return NodeRow(
        name, state, slots, 0.0, float(slots), {}, 1.0, list(labels), "pc", 0.1, {"mem_total_bytes": 8 << 30}
    )


def test_a_task_that_some_node_has_loaded_is_known():
    assert unknown("yard.count", {"yard.count"}) is None


def test_without_any_node_every_name_may_wait():
    assert unknown("yard.count", set()) is None


def test_an_unknown_task_is_answered_with_the_nearest_names():
    said = str(unknown("yard.cuont", {"yard.count", "demo.nap"}))

    assert "no node knows a task called 'yard.cuont'; did you mean yard.count?" in said


def test_an_unknown_task_without_a_near_name_is_answered_with_some_that_exist():
    said = str(unknown("q", {f"yard.t{number}" for number in range(9)}))

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
    assert why in str(unserved(needs, [node("a")]))


def test_one_node_that_could_serve_is_enough_even_when_it_is_late():
    assert unserved(Needs(labels=("zone=yard",)), [node("a"), node("b", "zone=yard", state="stale")]) is None


def test_a_node_that_is_gone_serves_nothing():
    assert "no node is there" in str(unserved(Needs(labels=("x",)), [node("a", "x", state="gone")]))


def test_plain_work_is_never_refused():
    assert unserved(Needs(), []) is None


def test_many_nodes_are_named_in_part():
    assert str(unserved(Needs(gpu=1), [node(f"n{number}") for number in range(9)])).count("has no GPU") == 4
