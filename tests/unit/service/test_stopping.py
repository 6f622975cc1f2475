"""Runs in threads are asked to stop one by one."""

from __future__ import annotations

from jetq.service.stopping import Stops


def test_only_the_run_that_is_meant_is_asked_and_only_once():
    stops = Stops()
    one, two = stops.open("1.a", "job"), stops.open("1.b", "other")

    assert stops.ask("1.a")
    assert not stops.ask("1.a")
    assert (one.is_set(), two.is_set()) == (True, False)


def test_a_later_run_of_the_same_job_does_not_hear_what_was_asked_of_the_earlier():
    stops = Stops()
    stops.open("1.a", "job")
    stops.close("1.a")
    later = stops.open("1.b", "job")

    assert not stops.ask("1.a")
    assert not later.is_set()


def test_a_job_may_be_asked_without_its_claimer():
    stops = Stops()
    run, other = stops.open("1.a", "job"), stops.open("1.b", "other")

    stops.ask_job("job")

    assert (run.is_set(), other.is_set()) == (True, False)
