"""Gangs of mpirun by ssh, with a real sshd on each board: they end as others do, and leave nothing on any of them."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.boards import Boards, carriers
from tests.fault.sshd import Sshd, boards_with_sshd

pytestmark = pytest.mark.xdist_group("gang-ssh")


@pytest.fixture(scope="module")
def boards_and_servers(tmp_path_factory) -> Iterator[tuple[Boards, dict[int, Sshd]]]:
    """Give two boards, and their sshd."""
    with boards_with_sshd(tmp_path_factory.mktemp("boards")) as made:
        yield made


@pytest.fixture
def boards(boards_and_servers) -> Iterator[Boards]:
    """Give them, and let no gang of a test that failed stand in the way of the next."""
    found, _servers = boards_and_servers
    yield found
    for row in found.ledger.jobs(100):
        if not row.ended:
            found.ledger.cancel(row.id, "its test is over")


def gang(boards: Boards, script: str, **how):
    return boards.gang("sh", "-c", script, nodes=2, transport="ssh", **how)


def test_by_ssh_ranks_run_on_both_boards_each_in_its_own_surroundings(boards, tmp_path):
    (tmp_path / "data").write_text("brought along")
    say = 'echo "$(hostname) $RANK/$WORLD_SIZE $GLOO_SOCKET_IFNAME $JETQ_NODE $A $(cat data)"'

    job = gang(boards, say, ranks=2, slots=0.5, workdir=tmp_path, env={"A": "x 'y' $z"})

    assert job.wait(60).state == "SUCCEEDED", boards.lines(job)
    surroundings = {"a": "nano1 {}/4 eth0 a", "b": "nano2 {}/4 enP8p1s0 b"}
    assert sorted(line for line in boards.lines(job) if not line.startswith("None: ")) == [
        f"{rank}: {surroundings[node].format(rank)} x 'y' $z brought along"
        for rank, node in enumerate(node for node in job.row().nodes for _ in range(2))
    ]
    boards.wait_nothing_left(job)


@pytest.mark.parametrize("rank", [0, 1])
def test_by_ssh_the_exit_code_of_a_rank_comes_back_and_nothing_of_the_others_is_left(boards, rank):
    job = gang(boards, f'setsid sleep 600 & [ "$RANK" = {rank} ] && {{ sleep 1; echo no data; exit 3; }}; sleep 600')
    row = job.wait(60)

    assert (row.state, row.exit_code) == ("FAILED", 3), boards.lines(job)
    assert f"rank {rank} on {row.nodes[rank]} exited with code 3" in row.error
    boards.wait_nothing_left(job)


def test_by_ssh_each_rank_is_asked_to_end_and_has_its_time_and_nothing_is_left(boards):
    saves = 'setsid sleep 600 & trap "sleep 1; echo saved $RANK; exit 0" TERM; echo "begins $RANK"; sleep 600 & wait'
    job = gang(boards, saves)
    boards.say(job, "begins", 2)

    job.cancel()
    row = job.wait(20)

    assert row.state == "CANCELLED"
    assert {"0: saved 0", "1: saved 1"} <= set(boards.lines(job))
    boards.wait_nothing_left(job)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("rank", "was killed by signal 9 (SIGKILL)"),
        ("prted", "lost mpirun's daemon"),
        ("sshd", "lost mpirun's daemon"),
        ("ssh", "lost mpirun's daemon"),
        ("script", "lost mpirun's daemon"),
        ("prterun", "mpirun was killed by signal 9 (SIGKILL)"),
        ("lane", "was lost: its lane died"),
    ],
)
def test_by_ssh_kill_9_ends_the_start_and_nothing_of_it_is_left(boards, what, why):
    job = gang(boards, 'setsid sleep 600 & echo "begins $RANK"; [ "$JETQ_ATTEMPT" = 1 ] && sleep 600; exit 0')
    boards.say(job, "begins", 2)

    os.kill(victim(boards, job, what), signal.SIGKILL)
    row = job.wait(40)

    assert row.state == ("FAILED" if what == "rank" else "SUCCEEDED")
    assert why in " | ".join(event["why"] for event in row.history)
    boards.wait_nothing_left(job)


def victim(boards: Boards, job, what: str) -> int:
    """Return the pid of what shall be killed."""
    lines = carriers(job.id)
    if what == "lane":
        return next(node for node in boards.nodes if node.name == job.row().nodes[1]).pid_of("processes")
    if what == "rank":
        return next(pid for pid, line in lines.items() if line.startswith("sh -c") and variable(pid, "RANK") == "1")
    if what == "script":
        return next(pid for pid, line in lines.items() if line.startswith("/bin/sh /"))
    pid = next(pid for pid, line in lines.items() if Path(line.split()[0]).name == what.replace("sshd", "prted"))
    while what == "sshd" and not Path(f"/proc/{pid}/cmdline").read_text().startswith("sshd"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().split()[3])
    return pid


def variable(pid: int, name: str) -> str:
    """Return a variable that a process was started with, "" if it has none."""
    carried = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next((part.partition("=")[2] for part in carried if part.startswith(f"{name}=")), "")


def test_by_ssh_a_board_without_sshd_is_named_within_seconds(boards, boards_and_servers):
    servers = boards_and_servers[1].values()
    for server in servers:  # either may be the head, which needs none
        server.stop()
    try:
        began_s = time.monotonic()
        job = gang(boards, "true")
        row = boards.until(job, lambda row: any(e["what"] == "left" for e in row.history), 20, "its refusal")
        took_s = time.monotonic() - began_s
        job.cancel()
        job.wait(10)
    finally:
        for server in servers:
            server.start()

    assert took_s < 8
    why = next(event["why"] for event in row.history if event["what"] == "left")
    assert re.match(r"node (a|b): ssh from (a|b) does not get in \(connect to host .*: Connection refused\); ", why)
    assert "\n" not in why
    boards.wait_nothing_left(job)
