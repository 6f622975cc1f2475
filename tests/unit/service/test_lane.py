"""A lane as its agent sees it: real processes that speak the protocol, and a clock moved by hand."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from jetq import ids, process
from jetq.clock import ManualClock
from jetq.service.fence import Fence
from jetq.service.lane import BACKOFF_FIRST_S, BACKOFF_LAST_S, HEALTHY_S, Lane, Phase

#: Says what it was told, its tasks and that it is ready; with a child in a session of its own.
ECHO = """
import json, os, subprocess, sys
control, status = open(int(sys.argv[1])), open(int(sys.argv[2]), "w", buffering=1)
subprocess.Popen(["setsid", "sleep", "600"], close_fds=True)
print(json.dumps({"tasks": ["b", "a"]}), "no JSON", json.dumps({"ready": 2}), sep="\\n", file=status)
for line in control:
    said = json.loads(line)
    print(json.dumps({"ready": said["allow"], "reserved": said["cancel"]}), file=status)
"""


class Commands:
    """Lanes that run a piece of Python."""

    def __init__(self, code: str) -> None:
        self.code = code

    def argv(self, lane: str, *, control_fd: int, status_fd: int, page_fd: int) -> list[str]:
        return [sys.executable, "-c", self.code, str(control_fd), str(status_fd), str(page_fd)]

    def environ(self) -> dict[str, str]:
        return dict(os.environ)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def make_lane(clock):
    made: list[Lane] = []

    def make(code: str = ECHO) -> Lane:
        made.append(
            Lane(
                "tasks",
                Commands(code),
                Fence(dead_s=5, clock=clock),
                slots=2,
                mark=f"{ids.random64()}.run",
                clock=clock,
            )
        )
        return made[-1]

    yield make
    for lane in made:
        lane.kill()


def heard(lane: Lane, wait_until, condition) -> None:
    wait_until(lambda: (lane.hear(), condition())[1], what="the lane's word")


def test_a_lane_says_what_it_has_and_follows_what_it_is_told(make_lane, wait_until):
    lane = make_lane()
    lane.start()
    heard(lane, wait_until, lambda: lane.ready == 2)

    lane.say(allow=1, cancel=["job-1"])

    heard(lane, wait_until, lambda: lane.reserved)
    assert (lane.tasks, lane.ready, lane.reserved) == (("b", "a"), 1, ("job-1",))


def test_the_same_is_not_said_twice(make_lane, wait_until):
    lane = make_lane()
    lane.start()
    lane.say(allow=1, cancel=[])
    heard(lane, wait_until, lambda: lane.ready == 1)

    lane.say(allow=1, cancel=[])
    lane.say(allow=3, cancel=[])

    heard(lane, wait_until, lambda: lane.ready == 3)


def test_a_lane_that_does_not_read_never_holds_up_its_agent(make_lane, wait_until):
    lane = make_lane("import signal, sys; open(int(sys.argv[2]), 'w').write('{\"ready\": 1}\\n'); signal.pause()")
    lane.start()
    heard(lane, wait_until, lambda: lane.ready == 1)

    for turn in range(2000):
        lane.say(allow=turn, cancel=["x" * 200])

    assert lane.phase is Phase.RUNS


def test_a_word_longer_than_the_pipe_arrives_whole(make_lane, wait_until):
    lane = make_lane()
    lane.start()
    jobs = [f"job-{n}" for n in range(20000)]

    lane.say(allow=1, cancel=jobs)

    heard(lane, wait_until, lambda: (lane.say(allow=1, cancel=jobs), len(lane.reserved) == len(jobs))[1])


def test_a_killed_lane_is_noticed_once_and_nothing_of_it_stays(make_lane, wait_until):
    lane = make_lane()
    lane.start()
    heard(lane, wait_until, lambda: lane.ready == 2)
    os.kill(lane.pid, signal.SIGKILL)

    wait_until(lane.has_died, what="the lane's end")
    lane.sweep()

    assert not lane.has_died()
    assert (lane.phase, lane.code, lane.ready) == (Phase.DIED, -signal.SIGKILL, 0)
    assert process.marked(lane.mark) == []


def test_killing_a_lane_kills_what_hides_its_marker_too(make_lane, wait_until):
    lane = make_lane(ECHO.replace('"600"], ', '"601"], env={"PATH": os.environ["PATH"]}, '))
    lane.start()
    heard(lane, wait_until, lambda: lane.ready == 2)
    below = process.children(lane.pid)

    lane.kill()

    assert below
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in below), what="the child's end")


def test_early_deaths_are_answered_later_each_time_and_health_is_rewarded(make_lane, clock, wait_until):
    lane = make_lane("raise SystemExit(3)")
    waits = []
    for life_s in (0, 0, 0, 0, 0, 0, 0, HEALTHY_S):
        assert lane.is_due()
        lane.start()
        wait_until(lane.has_died, what="the lane's end")
        clock.advance(life_s)
        lane.rest()
        assert not lane.is_due()
        died_s = clock()
        while not lane.is_due():
            clock.advance(0.1)
        waits.append(clock() - died_s)

    expected = [BACKOFF_FIRST_S * 2**n for n in range(6)] + [BACKOFF_LAST_S, BACKOFF_FIRST_S]
    assert waits == pytest.approx(expected, abs=0.11)
