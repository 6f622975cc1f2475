"""What a node says of its work stays true, whatever happens to its connections and its parent process."""

from __future__ import annotations

from functools import partial

import pytest

from tests.fault.probes import cut_all

#: Connections of nodes are cut so often, while a task runs.
CUTS = 3


def said(ledger) -> list[str]:
    """Return the jobs that the only node says it runs."""
    return ledger.nodes()[0].running


def beats(ledger) -> int:
    """Return the sequence number of the only node's last beat."""
    return int(ledger.client.hget(f"{ledger.prefix}node:a", "seq"))


@pytest.mark.parametrize("pool", ["fork", "spawn"])
def test_a_node_says_what_runs_and_no_longer_when_it_has_ended(start_node, send, ledger, note, wait_until, pool):
    start_node("a", "--pool", pool)
    job = send("fault.hold", str(note), 2)

    wait_until(lambda: said(ledger) == [job], what="the beat that names the job")

    wait_until(lambda: ledger.job(job).state == "SUCCEEDED", what="its end")
    wait_until(lambda: said(ledger) == [], what="the beat that no longer does")


def test_work_runs_once_though_all_connections_are_cut_and_more_is_not_taken(
    start_node, send, ledger, note, wait_until, clean_broker
):
    start_node("a", "--slots", "1")
    job = send("fault.hold", str(note), 8)
    wait_until(note.exists, what="the task's start")

    for _ in range(CUTS):
        cut_all(clean_broker)
        end = beats(ledger) + 2
        wait_until(partial(lambda end: beats(ledger) >= end, end), what="two beats")
        assert said(ledger) == [job]
    waiting = send("fault.quick", "x")
    wait_until(lambda: ledger.job(waiting).ended, within_s=30, what="the job behind it")

    first, second = ledger.job(job), ledger.job(waiting)
    assert (first.state, second.state) == ("SUCCEEDED", "SUCCEEDED")
    assert second.started_at >= first.finished_at
    assert len(note.read_text().splitlines()) == 1
    assert first.attempts == 0
