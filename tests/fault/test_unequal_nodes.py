"""Nodes that are full, broken, small or slow draw no work away from those that would do it at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import quantiles

import pytest
from celery import Celery

from jetq.model.job import JobRow

#: Measured times are compared as if the machine had taken so much longer for both (s).
NOISE_S = 0.05
#: Rounds of a measurement on a machine that has other work to do.
ROUNDS = 6
#: Jobs of a kind in a round that asks for its 99th percentile.
COUNT = 100


@pytest.fixture
def keep_busy(story, wait_until) -> Callable[..., None]:
    """Give ``keep_busy(count, send_one, *ends, most=4)``: send so many, ``most`` in flight; ``ends``: their words."""

    def drive(count: int, send_one: Callable[[int], object], *ends: str, most: int = 4) -> None:
        before = sum(len(story.lines(end)) for end in ends)
        for number in range(count):
            send_one(number)
            few = before + number + 2 - most
            wait_until(lambda few=few: sum(len(story.lines(end)) for end in ends) >= few, what="fewer jobs in flight")
        wait_until(lambda: sum(len(story.lines(end)) for end in ends) >= before + count, what="the end of all")

    return drive


def longest_waste_s(rows: Sequence[JobRow], room: dict[str, int]) -> float:
    """Return for how long at a stretch a job waited while a node had room for it. ``room``: slots by node."""
    moments = sorted({at for row in rows for at in (row.submitted_at, row.started_at, row.finished_at)})
    longest = stretch = 0.0
    for begin, end in pairwise(moments):
        waits = any(row.submitted_at <= begin < row.started_at for row in rows)
        runs = [row.nodes[0] for row in rows if row.started_at <= begin < row.finished_at]
        wasted = waits and any(runs.count(node) < slots for node, slots in room.items())
        stretch = stretch + end - begin if wasted else 0.0
        longest = max(longest, stretch)
    return longest


def test_short_jobs_never_wait_behind_an_endless_one_while_another_node_idles(
    start_node, send, ledger, story, end_of, wait_until, tmp_path, keep_busy
):
    start_node("a")
    done = tmp_path / "done"
    endless = send("fault.wait", str(story), "endless", str(done))
    wait_until(lambda: story.told("start") == {"endless": 1}, what="the endless job")
    start_node("b", "--slots", "1")

    burst = [send("fault.pace", str(story), f"burst{i}", 0.1) for i in range(30)]
    rows = end_of(*burst)
    trickle: list[str] = []
    keep_busy(10, lambda i: trickle.append(send("fault.pace", str(story), f"one{i}", 0.1)), "end")
    rows += end_of(*trickle)

    assert longest_waste_s(rows, {"a": 1, "b": 1}) < 1.0
    assert {node for row in rows for node in row.nodes} == {"a", "b"}
    assert ledger.job(endless).state == "RUNNING"


def test_a_node_that_fails_at_once_gets_next_to_nothing_and_is_taken_back_when_it_is_well(
    start_node, send, ledger, story, wait_until, node_state, keep_busy, tmp_path
):
    broken = tmp_path / "broken"
    broken.touch()
    start_node("a", FAULT_BROKEN=str(broken))
    start_node("b")

    def serve(_number: int) -> None:
        send("fault.serve", str(story), 0.02)

    keep_busy(150, serve, "served", "failed", most=8)

    ends = [line.split()[:2] for line in story.path.read_text().splitlines()]
    tenth = [number for number, (what, _) in enumerate(ends) if what == "failed"][9]
    later = ends[tenth + 1 :]
    assert len(later) > 100
    assert sum(node == "a" for _, node in later) <= 0.05 * len(later)
    assert (node_state("a"), node_state("b")) == ("failing", "up")

    broken.unlink()

    def is_back() -> bool:
        keep_busy(8, serve, "served", "failed", most=8)
        return story.told("served")["a"] >= 10

    wait_until(is_back, within_s=60, what="ten jobs that it serves")
    assert node_state("a") == "up"


def test_a_node_of_sixteen_slots_and_one_of_one_are_as_good_as_one_of_seventeen(start_node, app, end_of):
    start_node("one", "--slots", "17", "--label", "kind=one")
    start_node("big", "--slots", "16", "--label", "kind=two")
    start_node("small", "--slots", "1", "--label", "kind=two")
    jobs, nap_s = 340, 0.2

    def took_s(label: str) -> float:
        rows = end_of(*send_many(app, jobs, nap_s, label))
        return max(r.finished_at for r in rows) - min(r.submitted_at for r in rows)

    one_s, two_s = best_of_rounds(lambda: took_s("kind=one"), lambda: took_s("kind=two"), at_most=1.3)

    assert two_s <= 1.3 * max(jobs * nap_s / 17, one_s)


def best_of_rounds(one: Callable[[], float], other: Callable[[], float], *, at_most: float) -> tuple[float, float]:
    """Measure both in turn, until ``other`` is good enough or it has had its chances; return the best of each (s)."""
    best = math.inf, math.inf
    for _ in range(ROUNDS):
        best = min(best[0], one()), min(best[1], other())
        if best[1] <= at_most * best[0]:
            break
    return best


def send_many(app: Celery, count: int, nap_s: float, label: str) -> list[str]:
    """Send so many naps through one connection."""
    with app.producer_or_acquire() as producer:
        return [
            app.send_task("fault.nap", (nap_s,), producer=producer, jetq={"labels": [label]}).id for _ in range(count)
        ]


def test_two_slow_nodes_of_four_make_nobody_wait_longer(start_node, send, ledger, story, end_of, wait_until, keep_busy):
    for name in ("f1", "f2"):
        start_node(name, "--label", "kind=fast", JETQ_BOARD="fast")
    for name in ("s1", "s2"):
        start_node(name, JETQ_BOARD="slow", FAULT_SLOWER="6")
    for number in range(8):
        for node in ("f1", "s1"):
            send("fault.pace", str(story), f"first{number}", 0.05, jetq={"labels": [f"node={node}"]})
    wait_until(lambda: ledger.speeds().get("fault.pace", {}).get("slow", 1) < 0.5, within_s=30, what="learned speeds")
    sent: dict[str, list[str]] = {"pair": [], "all": []}
    labels = {"pair": ["kind=fast"], "all": []}

    def send_one(number: int) -> None:
        kind = ("pair", "all")[number % 2]
        sent[kind].append(send("fault.pace", str(story), kind, 0.05, jetq={"labels": labels[kind]}))

    def p99_s(kind: str) -> float:
        newest = end_of(*sent[kind][-COUNT:])
        return quantiles([row.finished_at - row.submitted_at for row in newest], n=100)[-1] + NOISE_S

    def pair_s() -> float:
        keep_busy(2 * COUNT, send_one, "end", most=2)
        return p99_s("pair")

    fast_s, all_s = best_of_rounds(pair_s, lambda: p99_s("all"), at_most=1.2)

    assert all_s <= 1.2 * fast_s
    slow = [row for row in end_of(*sent["all"]) if row.nodes[0].startswith("s")]
    assert len(slow) <= 0.01 * len(sent["all"])
