"""What kills a part of a gang on boards: the gang ends as one, says why, and leaves nothing on any of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.fault.boards import Boards, carriers, told, wait

pytestmark = pytest.mark.xdist_group("gang-faults")
#: A wrapper script with a child in a session of its own, as a user's might have. The second attempt ends well.
WRAPPED = 'setsid sleep 600 & echo "begins $RANK.$JETQ_ATTEMPT"; [ "$JETQ_ATTEMPT" = 1 ] && sleep 600; exit 0'


@pytest.fixture
def boards(cluster: Boards) -> Iterator[Boards]:
    """Give the boards, and end what a test leaves."""
    yield cluster
    cluster.end_all()


def of(job, words: str) -> list[int]:
    """Return the pids of a gang's processes with these words in their command lines, the first one's path left out."""
    return sorted(pid for pid, line in carriers(job.id).items() if words in f"/{line}/".replace("/ ", " "))


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_a_rank_that_fails_while_others_sleep_ends_the_gang_and_is_named(boards, launcher):
    failing = 'setsid sleep 600 & echo "begins $RANK"; [ "$RANK" = 2 ] && { sleep 1; echo no data; exit 3; }; sleep 600'

    job = boards.gang("sh", "-c", failing, launcher=launcher)
    boards.say(job, "no data", 1)
    at_s = time.monotonic()
    row = job.wait(30)

    assert time.monotonic() - at_s < 10
    assert (row.state, row.exit_code, row.attempts) == ("FAILED", 3, 0)
    assert "rank 2 on c exited with code 3" in row.error
    assert "no data" in row.tail
    boards.wait_nothing_left(job)


def test_kill_9_of_a_rank_is_its_failure_and_nothing_of_the_others_is_left(boards):
    job = boards.gang("sh", "-c", WRAPPED)
    boards.say(job, "begins", 3)

    os.kill(of(job, f"/sh -c {WRAPPED}")[-1], signal.SIGKILL)
    row = job.wait(15)

    assert (row.state, row.attempts, row.exit_code) == ("FAILED", 0, 137)
    assert "was killed by signal 9 (SIGKILL)" in row.error
    boards.wait_nothing_left(job)


@pytest.mark.parametrize(
    ("launcher", "victim", "why"),
    [
        ("mpirun", "prterun", "mpirun was killed by signal 9 (SIGKILL)"),
        ("mpirun", "prted", "lost mpirun's daemon: prted was killed by signal 9 (SIGKILL)"),
        ("torchrun", "torchrun", "torchrun was killed by signal 9 (SIGKILL)"),
    ],
)
def test_kill_9_of_a_launcher_or_daemon_is_a_loss_and_the_next_attempt_ends_well(boards, launcher, victim, why):
    job = boards.gang("sh", "-c", WRAPPED, launcher=launcher)
    boards.say(job, "begins", 3)

    os.kill(of(job, f"/{victim} ")[-1], signal.SIGKILL)
    boards.until(job, lambda row: why in told(row), 10, "the end of its first attempt")
    row = job.wait(40)

    assert (row.state, row.attempts) == ("SUCCEEDED", 1)
    boards.wait_nothing_left(job)


@pytest.mark.parametrize("index", [0, 1], ids=["the head's", "another's"])
def test_kill_9_of_a_lane_is_a_loss_and_nothing_of_it_is_left(boards, index):
    job = boards.gang("sh", "-c", WRAPPED)
    boards.say(job, "begins", 3)
    victim = next(node for node in boards.nodes if node.name == job.row().nodes[index])

    os.kill(victim.pid_of("processes"), signal.SIGKILL)
    why = f"node {victim.name} was lost: its lane died"
    boards.until(job, lambda row: why in told(row), 10, "the end of its first attempt")
    row = job.wait(60)

    assert (row.state, row.attempts) == ("SUCCEEDED", 1)
    boards.wait_nothing_left(job)


@pytest.mark.parametrize("keep", [False, True])
def test_a_cancelled_gang_leaves_nothing_but_its_folders_where_it_shall_keep_them(boards, keep):
    job = boards.gang("sh", "-c", WRAPPED, keep=keep)
    boards.say(job, "begins", 3)

    job.cancel()
    row = job.wait(20)

    assert row.state == "CANCELLED"
    wait(
        lambda: set(boards.left_of(job)) == ({"folders"} if keep else set()),
        10,
        "its end",
        row=lambda: boards.left_of(job),
    )
    assert len(boards.folders(job)) == (3 if keep else 0)
