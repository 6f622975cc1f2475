"""The guard: real agents of a line of shell, each started by a guard in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jetq import ids, process
from jetq.service.guard import GUARDED, is_guarded

GUARD = "import sys; from jetq.service.guard import guard; sys.exit(guard(sys.argv[2:], key=sys.argv[1], grace_s=0))"


@pytest.fixture
def start_guard():
    started: list[tuple[subprocess.Popen[str], str]] = []

    def start(script: str) -> tuple[subprocess.Popen[str], str]:
        key = ids.random64()
        env = {**os.environ, "PYTHONPATH": str(Path(process.__file__).parents[1])}
        popen = subprocess.Popen(
            [sys.executable, "-c", GUARD, key, "sh", "-c", script], stdout=subprocess.PIPE, text=True, env=env
        )
        started.append((popen, key))
        return popen, key

    yield start
    for popen, key in started:
        popen.kill()
        popen.wait(10)
        popen.stdout.close()
        process.sweep(key)


@pytest.mark.parametrize(("agent_code", "code"), [(0, 0), (1, 1), (2, 2), (69, 69), (7, 1)])
def test_it_ends_as_its_agent_did_where_the_agent_said_why(start_guard, agent_code, code):
    guard, _ = start_guard(f"exit {agent_code}")

    assert guard.wait(20) == code


def test_an_agent_that_dies_leaves_nothing_and_the_guard_fails(start_guard):
    guard, key = start_guard("setsid -f sleep 600; env -u JETQ_MARK setsid -f sleep 600; kill -9 $$")

    assert guard.wait(20) == 1
    assert process.marked(key) == []


def test_an_agent_that_had_to_give_up_is_followed_by_the_next_which_knows_it(start_guard, tmp_path):
    runs = tmp_path / "runs"
    wait = f'n=$(wc -l <{runs}); [ "$n" = 3 ] && exit 0; exit 75'

    guard, key = start_guard(f"echo $JETQ_REJOINS-$JETQ_MARK >>{runs}; setsid -f sleep 600; {wait}")

    assert guard.wait(20) == 0
    first, *later = runs.read_text().split()
    assert first.startswith("-")
    assert [line.startswith("1-") for line in later] == [True, True]
    assert len({line.partition("-")[2] for line in (first, *later)}) == 3
    assert process.marked(key) == []


def test_a_guard_that_is_asked_to_stop_starts_no_next_agent(start_guard, tmp_path):
    runs = tmp_path / "runs"
    guard, _ = start_guard(f"trap 'exit 75' TERM; echo x >>{runs}; echo ready; while :; do sleep 0.05; done")
    guard.stdout.readline()

    guard.send_signal(signal.SIGTERM)

    assert guard.wait(20) == 1
    assert len(runs.read_text().split()) == 1


def test_a_guard_may_be_stopped_between_two_agents(start_guard, wait_until):
    guard, _ = start_guard("echo ready; exit 75")
    for _ in range(3):  # the pause before the next is 2 s by now
        guard.stdout.readline()
    wait_until(lambda: process.children(guard.pid) == [], what="the guard to have seen the end of the third")

    guard.send_signal(signal.SIGTERM)

    assert guard.wait(20) == 0


def test_signals_reach_the_agent_as_sigterm(start_guard):
    for signum in (signal.SIGTERM, signal.SIGINT):
        guard, _ = start_guard("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        guard.stdout.readline()

        guard.send_signal(signum)

        assert guard.wait(20) == 0


def test_an_orphan_is_killed_while_the_agent_goes_on(start_guard, wait_until):
    guard, key = start_guard("setsid -f sleep 600; sleep 1; exec sleep 600")

    wait_until(lambda: len(process.marked(key)) == 1, what="the orphan's end")
    assert guard.poll() is None


def test_only_the_child_of_its_guard_is_guarded():
    assert is_guarded({GUARDED: str(os.getppid())})
    assert not is_guarded({GUARDED: "1"})
    assert not is_guarded({})
