"""Bodies that kill their own process, and processes that bodies have started: nothing of either is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

#: All processes of a body are gone so soon after its end (s).
GONE_S = 10.0


def family(note: Path) -> list[int]:
    """Return the pids of a body, its child and its grandchild; empty until all are there."""
    lines = note.read_text().splitlines() if note.exists() else []
    return [int(word) for word in lines[0].split()] if lines else []


def alive(pids: list[int]) -> list[int]:
    """Return those that run."""
    return [pid for pid in pids if _state(pid) not in ("Z", "X", "")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_poison_ends_after_three_attempts_and_its_node_and_neighbours_stay_healthy(
    start_node, jetq, send, ledger, story, end_of
):
    node = start_node("a", "--slots", "3", JETQ_DEAD_S="20")  # a machine that stalls for seconds fences nobody here
    lane, epoch = node.pid_of("tasks"), ledger.nodes()[0].epoch

    poisons = [send("fault.poison", str(story), how, how) for how in ("exit", "crash", "kill")]
    others = [send("fault.work", str(story), f"w{i}", 0.3) for i in range(9)]

    rows = end_of(*poisons)
    assert [(row.state, row.attempts) for row in rows] == [("FAILED", 3)] * 3
    assert all(row.error.startswith("gave up after 3 attempts: ") for row in rows)
    assert [[(h["what"], h["node"]) for h in row.history] for row in rows] == [[("lost", "a")] * 3] * 3
    assert [story.told("start")[how] for how in ("exit", "crash", "kill")] == [3, 3, 3]
    assert jetq("job", "show", poisons[2]).stdout.count("lost") == 3
    assert "its process ended early: signal 9 (SIGKILL)" in [h["why"] for h in rows[2].history]
    assert {(row.state, row.attempts) for row in end_of(*others)} == {("SUCCEEDED", 0)}
    assert all(story.told(what)[f"w{i}"] == 1 for what in ("start", "end") for i in range(9))
    assert [(n.state, n.epoch, n.used) for n in ledger.nodes()] == [("up", epoch, 0)]
    assert node.pid_of("tasks") == lane


def test_the_whole_tree_of_a_body_goes_with_it_however_it_is_ended(
    start_node, send, ledger, end_of, wait_until, tmp_path
):
    node = start_node("a", "--slots", "3", JETQ_DEAD_S="20")  # a machine that stalls for seconds fences nobody here
    notes = {how: tmp_path / how for how in ("cancelled", "late", "lane")}
    cancelled = send("fault.family", str(notes["cancelled"]), 600)
    late = send("fault.late_family", str(notes["late"]), 600)
    wait_until(lambda: family(notes["cancelled"]) and family(notes["late"]), what="two trees")

    ledger.cancel(cancelled, "enough")

    rows = end_of(cancelled, late)
    assert [row.state for row in rows] == ["CANCELLED", "FAILED"]
    assert "time limit" in rows[1].error
    trees = family(notes["cancelled"]) + family(notes["late"])
    wait_until(lambda: not alive(trees), within_s=GONE_S, what="the end of both trees")

    killed = send("fault.family", str(notes["lane"]), 600)
    tree = wait_until(lambda: family(notes["lane"]), what="a third tree")
    os.kill(node.pid_of("tasks"), signal.SIGKILL)

    wait_until(lambda: not alive(tree), within_s=GONE_S, what="the end of the third tree")
    assert [(row.state, row.attempts) for row in end_of(killed)] == [("SUCCEEDED", 1)]
