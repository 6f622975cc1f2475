"""Bodies that kill their own process, and processes that bodies have started: nothing of either is left behind."""

from __future__ import annotations

import os
import signal

from tests.fault.probes import alive, pids

#: All processes of a body are gone so soon after its end (s).
GONE_S = 10.0


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
    wait_until(lambda: pids(notes["cancelled"]) and pids(notes["late"]), what="two trees")

    ledger.cancel(cancelled, "enough")

    rows = end_of(cancelled, late)
    assert [row.state for row in rows] == ["CANCELLED", "FAILED"]
    assert "time limit" in rows[1].error
    trees = pids(notes["cancelled"]) + pids(notes["late"])
    wait_until(lambda: not [pid for pid in trees if alive(pid)], within_s=GONE_S, what="the end of both trees")

    killed = send("fault.family", str(notes["lane"]), 600)
    tree = wait_until(lambda: pids(notes["lane"]), what="a third tree")
    os.kill(node.pid_of("tasks"), signal.SIGKILL)

    wait_until(lambda: not [pid for pid in tree if alive(pid)], within_s=GONE_S, what="the end of the third tree")
    assert [(row.state, row.attempts) for row in end_of(killed)] == [("SUCCEEDED", 1)]
