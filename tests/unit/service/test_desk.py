"""What mpirun asks for is passed on to the member it is for, and its launch agent ends as the daemon does."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetq.launch.exec import LaunchRequest
from jetq.service.desk import AGENT, LAUNCH, Desk
from jetq.store.redis import RedisStore, connect

TOKEN = "00ff"
PRTED = "PRTE_PREFIX=/opt/x;export PRTE_PREFIX;/opt/x/bin/prted --prtemca ess env"


def call(folder: Path, *words: str) -> subprocess.Popen[str]:
    env = {**os.environ, LAUNCH: str(folder)}
    return subprocess.Popen([*AGENT, *words], env=env, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def ledger(clean_broker) -> RedisStore:
    return RedisStore(connect(clean_broker.url), "desk")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder whose path is longer than that of a socket may be."""
    made = tmp_path / ("long-" * 20)
    made.mkdir()
    return made


@pytest.fixture
def desk(ledger, folder) -> Iterator[Desk]:
    with Desk(ledger, TOKEN, folder) as made:
        yield made


def requests(ledger: RedisStore, address: str, count: int) -> dict[str, list[str]]:
    end_s = time.monotonic() + 10
    while len(found := ledger.launches(TOKEN, address)) < count:
        assert time.monotonic() < end_s, found
    return found


def test_callers_end_as_the_daemons_that_they_asked_for(ledger, folder, desk):
    callers = [call(folder, f"10.0.0.{number}", PRTED) for number in (2, 3)]
    for number, code in ((2, 3), (3, 0)):
        ((asked, words),) = requests(ledger, f"10.0.0.{number}", 1).items()
        assert LaunchRequest.parse(words).args == ("--prtemca", "ess", "env")
        ledger.answer_launch(asked, code, f"said {number}\n")

    assert [caller.communicate(timeout=10)[1] for caller in callers] == ["said 2\n", "said 3\n"]
    assert [caller.returncode for caller in callers] == [3, 0]


def test_what_is_no_daemon_is_refused_and_nobody_is_asked(ledger, folder, desk):
    caller = call(folder, "10.0.0.2", "rm -r /")

    assert "only prted and orted are started" in caller.communicate(timeout=10)[1]
    assert caller.returncode == 2
    assert ledger.launches(TOKEN, "10.0.0.2") == {}


def test_a_request_waits_for_a_broker_that_comes_back(folder, start_broker):
    broker = start_broker()
    ledger = RedisStore(connect(broker.url), "desk")
    with Desk(ledger, TOKEN, folder):
        broker.kill()
        caller = call(folder, "10.0.0.2", PRTED)
        broker.start()
        (asked,) = requests(ledger, "10.0.0.2", 1)
        ledger.answer_launch(asked, 7, "")

        assert caller.communicate(timeout=10) == (None, "")
        assert caller.returncode == 7


def test_callers_end_with_the_desk(ledger, folder, desk):
    caller = call(folder, "10.0.0.2", PRTED)
    requests(ledger, "10.0.0.2", 1)
    desk.close()

    caller.communicate(timeout=10)
    assert caller.returncode == 1
    late = call(folder, "10.0.0.2", PRTED)
    assert "does not answer" in late.communicate(timeout=10)[1]


def test_a_launch_agent_that_a_person_calls_says_what_it_is():
    done = subprocess.run([*AGENT, "host", "words"], env={}, capture_output=True, text=True, timeout=10, check=False)

    assert done.returncode == 1
    assert "jetq gang" in done.stderr
