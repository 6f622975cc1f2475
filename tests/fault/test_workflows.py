"""Chains, chords and callbacks whose node dies between the end of a body and what follows it: each step runs once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from celery import chain, chord

#: Silent nodes are dead after this (s).
DEAD = {"JETQ_DEAD_S": "2"}


def test_what_follows_a_body_runs_once_though_its_node_dies_before_it_is_published(
    start_node, app, ledger, story, end_of, wait_until, tmp_path
):
    gate = tmp_path / "gate"
    gate.touch()
    first = start_node("a", "--slots", "4", FAULT_GATE=str(gate), **DEAD)

    def step(name, key, *args, **how):
        return app.signature(f"fault.{name}", (*args, str(story), key), **how)

    steps = chain(step("step", "one", []), step("step", "two"), step("step", "three"))
    steps.tasks[0].options["link"] = [step("step", "linked")]
    joined = chord([step("step", "p", []), step("die_once", "q"), step("step", "r", [])], step("step", "joined"))
    chained, met = steps.apply_async(), joined.apply_async()
    failed = step("boom", "boom").apply_async(link_error=step("mourn", "mourned"))
    held = {"fault.step": 2, "fault.mourn": 1}
    wait_until(lambda: at_gate(gate) == held, within_s=30, what="three bodies before what follows them")
    bodies = [line.split()[0] for line in gate.read_text().splitlines()]
    assert {ledger.job(job).state for job in bodies} == {"FINISHING"}

    start_node("b", "--slots", "4", **DEAD)
    first.power_off()

    assert chained.get(timeout=60) == ["one", "two", "three"]
    assert met.get(timeout=60) == [["p"], "q", ["r"], "joined"]
    wait_until(lambda: len(ledger.jobs()) == 10 and all(row.ended for row in ledger.jobs()), what="the end of all")
    assert story.told("end") == Counter(["one", "two", "three", "linked", "p", "q", "r", "joined", "mourned"])
    assert story.told("start") == story.told("end") + Counter(["q", "boom"]), "only what killed its process began anew"
    assert sorted((row.state, *row.nodes) for row in end_of(*bodies)) == [("FAILED", "b"), *[("SUCCEEDED", "b")] * 2]
    assert ledger.job(failed.id).error == "RuntimeError: boom"


def at_gate(gate: Path) -> dict[str, int]:
    """Return how many bodies wait to publish each task."""
    return dict(Counter(line.split()[1] for line in gate.read_text().splitlines()))
