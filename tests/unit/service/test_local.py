"""A child that dies is started again, later each time; its log says why."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from jetq.service.local import Kept, Launch, LocalCluster, ending


def launch(tmp_path, code: str, name: str = "node-1") -> Launch:
    return Launch(name, [sys.executable, "-c", code], dict(os.environ), tmp_path / f"{name}.log")


@pytest.fixture
def cluster(tmp_path):
    """Give ``cluster(code...) -> (cluster, told)``: one child for each program."""
    made: list[LocalCluster] = []

    def make(*codes: str) -> tuple[LocalCluster, list[str]]:
        told: list[str] = []
        launches = [launch(tmp_path, code, f"node-{number}") for number, code in enumerate(codes, 1)]
        made.append(LocalCluster(None, launches, None, tell=told.append, stopping=threading.Event()))
        return made[-1], told

    yield make
    hurry = threading.Event()
    hurry.set()
    for one in made:
        one.stop(0.0, hurry)


def test_a_child_that_dies_is_started_again_later_each_time(tmp_path, wait_until):
    kept = Kept(launch(tmp_path, "print('jetq: no luck'); raise SystemExit(3)"))
    kept.start(fresh_log=True)

    said = [wait_until(kept.look) for _ in range(3)]

    assert [line.partition(":")[0] for line in said] == [
        "node-1 ended (exit 3), starts again in 0.2 s",
        "node-1 ended (exit 3), starts again in 0.4 s",
        "node-1 ended (exit 3), starts again in 0.8 s",
    ]
    assert said[0].endswith(": no luck")
    assert kept.deaths == 3


def test_a_child_that_was_not_asked_for_is_not_started(tmp_path):
    kept = Kept(launch(tmp_path, "pass"))

    assert kept.look() is None
    assert kept.pid is None


def test_the_last_words_are_the_error_not_what_came_after(tmp_path, wait_until):
    kept = Kept(launch(tmp_path, "print('jetq: the broker is down'); print('bye'); raise SystemExit(69)"))
    kept.start()

    assert wait_until(kept.look).endswith(": the broker is down")


def test_a_child_killed_by_a_signal_is_told_so():
    assert (ending(-9), ending(2)) == ("signal 9", "exit 2")


def test_a_stop_waits_for_children_that_end_in_time(cluster, tmp_path, wait_until):
    patient = "\n".join(
        [
            "import signal, sys",
            "signal.signal(15, lambda *_: (print('good', flush=True), sys.exit()))",
            "print('on', flush=True)",
            "signal.pause()",
        ]
    )
    both, told = cluster(patient, patient)
    for kept in both.nodes.values():
        kept.start()
    logs = [tmp_path / "node-1.log", tmp_path / "node-2.log"]
    wait_until(lambda: all("on" in log.read_text() for log in logs))

    both.stop(5.0, threading.Event())

    assert all("good" in log.read_text() for log in logs)
    assert told == []


def test_a_hurried_stop_kills_what_does_not_end(cluster, tmp_path, wait_until):
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); print('on', flush=True); signal.pause()"
    one, told = cluster(stubborn)
    one.nodes["node-1"].start()
    wait_until(lambda: "on" in (tmp_path / "node-1.log").read_text())
    pid = one.pids()["node-1"]
    hurry = threading.Event()
    hurry.set()

    one.stop(60.0, hurry)

    assert told == ["node-1 is killed"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
