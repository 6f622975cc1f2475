"""Explain: the numbers per node and why, in the order of the pick."""

from __future__ import annotations

from jetq.model.beat import NodeRow
from jetq.model.needs import Needs
from jetq.policy.explain import explain
from jetq.policy.strategies import get


def row(name: str, slots: int, used: float, *, prior: float = 1.0, **changes: object) -> NodeRow:
    facts: dict[str, object] = {
        "state": "up",
        "speed": {},
        "trim": 1.0,
        "labels": [f"node={name}"],
        "board": "pc",
        "beat_age_s": 0.5,
        "metrics": {},
    }
    return NodeRow(name=name, slots=slots, used=used, weight=slots * prior, **(facts | changes))  # type: ignore[arg-type]


def test_the_cheapest_node_comes_first_and_full_and_unfit_ones_say_why():
    nodes = [
        row("full", 2, 2),
        row("slow", 2, 0, prior=0.5),
        row("fast", 4, 1, prior=2.0),
        row("late", 4, 0, state="stale", beat_age_s=3.2),
    ]

    found = explain(nodes, Needs(), get("dynamic"))

    assert [s.node for s in found] == ["fast", "slow", "full", "late"]
    assert [s.score for s in found[:2]] == [6 / 8, 3.0]
    assert [s.rank for s in found] == [1, 2, None, None]
    assert found[0].why == "costs least"
    assert "full (2 of 2 slots)" in found[2].why
    assert "stale, last beat 3.2 s ago" in found[3].why


def test_what_a_node_lacks_is_named():
    nodes = [row("a", 2, 0), row("b", 2, 0, labels=["gpu", "zone=yard"], metrics={"mem_total_bytes": 4 * 1024**3})]

    by_label = explain(nodes, Needs(labels=("zone=yard",)), get("dynamic"))
    by_gpu = explain(nodes, Needs(gpu=1), get("dynamic"))
    by_memory = explain(nodes, Needs(mem_bytes=8 * 1024**3), get("dynamic"))
    by_slots = explain(nodes, Needs(slots=3), get("dynamic"))

    assert [(s.node, s.eligible, s.why) for s in by_label][1] == ("a", False, "does not carry zone=yard")
    assert [(s.node, s.why) for s in by_gpu][1] == ("a", "has no GPU")
    assert "has 4.0 GiB of memory, the job needs 8.0" in by_memory[1].why
    assert not any(s.eligible for s in by_slots)


def test_of_a_node_that_is_away_only_that_is_said():
    nodes = [row("a", 2, 0), row("b", 2, 0, state="dead", beat_age_s=60.0)]

    found = explain(nodes, Needs(labels=("zone=yard",)), get("dynamic"), name="yard.count", knowers={"a"})

    assert [(s.why, s.eligible) for s in found] == [
        ("does not carry zone=yard", False),
        ("is dead, last beat 60.0 s ago", False),
    ]


def test_the_learned_speed_of_the_task_counts_for_dynamic_only():
    nodes = [row("a", 1, 0, speed={"yard.count": 4.0}), row("b", 1, 0)]

    dynamic = explain(nodes, Needs(), get("dynamic"), name="yard.count")
    plain = explain(nodes, Needs(), get("least_connections"), name="yard.count")

    assert [(s.node, s.score) for s in dynamic] == [("a", 0.5), ("b", 2.0)]
    assert [(s.rank, s.why) for s in plain] == [(1, "drawn by lot among equals")] * 2


def test_the_only_free_node_says_so():
    found = explain([row("a", 2, 0), row("b", 2, 2)], Needs(), get("dynamic"))

    assert (found[0].node, found[0].rank, found[0].why) == ("a", 1, "no other node is free")


def test_equals_at_the_top_are_drawn_by_lot_and_the_rest_costs_more():
    found = explain([row("a", 2, 0), row("b", 2, 0), row("c", 2, 1)], Needs(), get("dynamic"))

    assert [(s.node, s.rank, s.why) for s in found] == [
        ("a", 1, "drawn by lot among equals"),
        ("b", 1, "drawn by lot among equals"),
        ("c", 2, "costs more"),
    ]


def test_a_backlog_takes_every_free_slot():
    found = explain([row("a", 2, 0)], Needs(), get("dynamic"), backlog=7)

    assert found[0].score is None
    assert "7 jobs" in found[0].why


def test_standings_are_plain_values_for_json():
    facts = explain([row("a", 2, 0)], Needs(), get("round_robin"))[0].as_json()

    assert facts["why"] == "takes its turn by the ledger's pass values"
    assert facts["node"] == "a"
