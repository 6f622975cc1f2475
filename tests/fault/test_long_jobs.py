"""Long jobs run in threads of one process: what ends one of them leaves the process and its neighbours alone."""

from __future__ import annotations

import pytest

from tests.fault.probes import cut_all

#: A body hears so soon that it is to stop (s): a beat comes each second, on a busy machine later.
HEARD_S = 5.0
LONG = {"kind": "stream"}


@pytest.fixture
def pair(start_node, send, story, wait_until):
    """Give two long jobs that run side by side, and the process that runs both."""

    def start(**how):
        node = start_node("a", "--slots", "4", JETQ_DEAD_S="10")  # a machine that stalls for seconds fences nobody here
        lane = str(node.pid_of("processes"))
        jobs = [send("fault.watch", str(story), key, *args, jetq=LONG) for key, args in how.items()]
        wait_until(lambda: all(story.told("start")[key] for key in how), what="all bodies")
        assert {words[1] for words in story.lines("start")} == {lane}
        return node, lane, jobs

    return start


def lives_on(lane, node, ledger, send, story, end_of, wait_until, other):
    """Check that the neighbour still runs, that the lane takes work, and that the neighbour hears its own cancel."""
    assert str(node.pid_of("processes")) == lane
    assert ledger.job(other).state == "RUNNING"
    assert not story.told("asked")["two"]
    ledger.cancel(other, "enough")
    assert [row.state for row in end_of(other)] == ["CANCELLED"]
    third = send("fault.watch", str(story), "three", jetq=LONG)
    wait_until(lambda: story.told("start")["three"], what="a third body")
    ledger.cancel(third, "enough")
    end_of(third)
    assert {words[1] for words in story.lines("start")} == {lane}
    assert [row.attempts for row in (ledger.job(other), ledger.job(third))] == [0, 0]
    wait_until(lambda: ledger.nodes()[0].used == 0, what="no leases")


def test_a_cancelled_run_is_asked_to_stop_and_nothing_else_is(pair, ledger, send, story, end_of, wait_until):
    node, lane, (one, two) = pair(one=(), two=())

    ledger.cancel(one, "enough")

    wait_until(lambda: story.told("asked")["one"], within_s=HEARD_S, what="the body's stop")
    (row,) = end_of(one)
    assert (row.state, row.reason, row.attempts) == ("CANCELLED", "enough", 0)
    lives_on(lane, node, ledger, send, story, end_of, wait_until, two)


def test_a_run_that_takes_its_time_to_stop_is_left_to_it(pair, ledger, send, story, end_of, wait_until):
    node, lane, (one, two) = pair(one=(8.0,), two=())

    ledger.cancel(one, "enough")

    wait_until(lambda: story.told("asked")["one"], within_s=HEARD_S, what="the body's stop")
    wait_until(lambda: story.told("end")["one"], within_s=20, what="the body's end")
    assert [row.state for row in end_of(one)] == ["CANCELLED"]
    lives_on(lane, node, ledger, send, story, end_of, wait_until, two)


def test_celerys_own_termination_asks_the_run_too(app, pair, ledger, send, story, end_of, wait_until):
    node, lane, (one, two) = pair(one=(), two=())

    app.control.terminate(one, signal="SIGKILL")

    wait_until(lambda: story.told("asked")["one"], within_s=HEARD_S, what="the body's stop")
    assert [row.state for row in end_of(one)] == ["CANCELLED"]
    lives_on(lane, node, ledger, send, story, end_of, wait_until, two)


def test_a_run_that_celery_has_lost_sight_of_hears_its_cancel(
    clean_broker, pair, ledger, send, story, end_of, wait_until, pops
):
    node, lane, (one, two) = pair(one=(), two=())
    cut_all(clean_broker)
    wait_until(lambda: "lane.goes_on" in node.log or pops("jetq-a-processes"), what="the lane's new connection")

    ledger.cancel(one, "enough")

    wait_until(lambda: story.told("asked")["one"], within_s=HEARD_S, what="the body's stop")
    assert [row.state for row in end_of(one)] == ["CANCELLED"]
    lives_on(lane, node, ledger, send, story, end_of, wait_until, two)


def test_a_body_that_leaves_its_thread_as_if_it_were_a_process_takes_nobody_along(
    pair, ledger, send, story, end_of, wait_until
):
    node, lane, (two,) = pair(two=())

    leaver = send("fault.leave", str(story), "leaver", jetq=LONG)

    (row,) = end_of(leaver)
    assert (row.state, row.attempts, story.told("start")["leaver"]) == ("FAILED", 0, 1)
    assert "sys.exit(3)" in row.error
    lives_on(lane, node, ledger, send, story, end_of, wait_until, two)
