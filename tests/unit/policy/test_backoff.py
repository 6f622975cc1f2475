"""Waits that double."""

from __future__ import annotations

from jetq.policy.backoff import FORGET_S, LONGEST_REST_S, REST_S, Rest, pause_s, refused


def test_a_wait_doubles_up_to_its_cap():
    waits = [pause_s(failures, first_s=5.0, most_s=300.0) for failures in (0, 1, 2, 3, 7, 5000)]

    assert waits == [0.0, 5.0, 10.0, 20.0, 300.0, 300.0]


def test_a_node_that_refuses_again_rests_longer():
    rest: Rest | None = None
    lengths = []
    now_s = 1000.0
    for _ in range(7):
        rest = refused(rest, now_s, "port 29500 is taken")
        lengths.append(rest.until_s - now_s)
        now_s = rest.until_s + 1.0

    assert lengths == [REST_S, 20.0, 40.0, 80.0, 160.0, LONGEST_REST_S, LONGEST_REST_S]


def test_a_refusal_long_ago_counts_no_more():
    first = refused(refused(None, 0.0, "x"), 11.0, "x")

    again = refused(first, first.until_s + FORGET_S, "y")

    assert again == Rest(1, first.until_s + FORGET_S + REST_S, "y")
