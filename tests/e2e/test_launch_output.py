"""The real torchrun and mpirun, run as a member runs them: what ranks say, who failed first, how it ends."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import ids, process
from jetq.launch.base import Member, Run, Start
from jetq.launch.causes import RootCause
from jetq.launch.output import Line, Output
from jetq.launch.plans import plan
from jetq.model.gang import GangSpec
from jetq.service.ranks import RankProcess

RANK = """
import os, signal, sys
from time import sleep
rank = int(os.environ["RANK"])
print("hello from", rank)
print("broken", end=" "); sleep(0.2); print("line")
{then}
sleep(600)
"""


class Running:
    """What one member of a plan runs."""

    def __init__(self, start: Start, launcher: str, world_size: int) -> None:
        self.lines: list[Line] = []
        self.mark = {"JETQ_MEMBER": ids.random64()}
        for path, text in start.files.items():
            Path(path).write_text(text)
        output = Output.of_torchrun(start.ranks) if launcher == "torchrun" else Output.of_mpirun(5, world_size)
        self.ranks = RankProcess(
            start.argv,
            env={**start.env, **self.mark},
            cwd=start.cwd,
            folder=Path(start.cwd).parent,
            output=output,
            take=self.lines.append,
            mark="JETQ_MEMBER",
        )
        self.ranks.start()


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Callable[[str, str], list[Running]]]:
    """Give ``gang(launcher, what its ranks do) -> [running]``: four ranks of two members on this machine."""
    made: list[Running] = []

    def start(launcher: str, then: str) -> list[Running]:
        program = tmp_path / "rank.py"
        program.write_text(RANK.format(then=then))
        spec = GangSpec((sys.executable, str(program)), 2, 2, 2, 0.1, launcher=launcher, as_root=True)
        members = []
        for number in range(2):
            place = tmp_path / f"n{number}"
            (place / "work").mkdir(parents=True)
            members.append(Member(f"n{number}", "127.0.0.1", "127.0.0.0/8", "lo", str(place), 8.0, open_mpi=5))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for one in plan(spec, members, Run("r1", port)).starts:
            if one.argv:
                made.append(Running(one, launcher, 4))
        return made

    yield start
    for running in made:
        running.ranks.close(20)


def all_spoke(running: list[Running]) -> bool:
    """Tell whether all ranks have said all; what they say is theirs."""
    lines = [line for one in running for line in one.lines]
    hellos = {line for line in lines if line.text.startswith("hello")}
    broken = [line.rank for line in lines if line.text == "broken line"]
    assert hellos <= {Line(number, f"hello from {number}") for number in range(4)}
    return len(hellos) == 4 and sorted(broken, key=str) == [0, 1, 2, 3]


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
@pytest.mark.parametrize(
    ("then", "cause"),
    [
        ("if rank == 3: sys.exit(3)", RootCause(3, 3, "exited with code 3")),
        ("if rank == 3: os.kill(os.getpid(), 9)", RootCause(3, -9, "was killed by signal 9 (SIGKILL)")),
    ],
    ids=["exits", "is killed"],
)
def test_each_rank_is_heard_and_the_first_that_fails_is_known(gang, wait_until, launcher, then, cause):
    running = gang(launcher, f"sleep(1)\n{then}")
    last = running[-1].ranks

    wait_until(lambda: last.poll() is not None, within_s=90, what="the end of the member whose rank failed")
    for one in running:
        one.ranks.end()
        one.ranks.close(20)

    assert all_spoke(running)
    assert last.cause == cause
    assert "broken line" in last.tail(3)
    assert not [pid for one in running for pid in process.carriers(**one.mark)]


def test_ranks_of_mpirun_that_all_fail_at_once_are_known_though_it_may_name_none(gang, wait_until):
    (running,) = gang("mpirun", "sys.exit(5)")

    wait_until(lambda: running.ranks.poll() is not None, within_s=90, what="the end")
    running.ranks.close(20)

    assert running.ranks.poll() == 5
    assert (running.ranks.cause.code, running.ranks.cause.why) == (5, "exited with code 5")


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_ranks_end_in_their_own_way_when_asked_and_are_asked_once(gang, wait_until, launcher):
    saves = "def save(*_):\n    print('asked', rank); sleep(1); print('saved', rank); sys.exit(0)\n"
    running = gang(launcher, f"{saves}signal.signal(signal.SIGTERM, save); print('ready')")

    def said(word: str) -> list[str]:
        return sorted(line.text for one in running for line in one.lines if line.text.startswith(word))

    wait_until(lambda: len(said("ready")) == 4, within_s=90, what="four ranks")

    for one in running:
        one.ranks.end()
        one.ranks.close(20)

    assert said("asked") == [f"asked {number}" for number in range(4)]
    assert said("saved") == [f"saved {number}" for number in range(4)]


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_ranks_that_ignore_sigterm_are_ended_with_their_launchers(gang, wait_until, launcher):
    running = gang(launcher, "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')")
    wait_until(
        lambda: [line.text for one in running for line in one.lines].count("deaf") == 4, within_s=90, what="four ranks"
    )
    folders = [folder for one in running for pid in process.carriers(**one.mark) for folder in _temporary(pid)]

    codes = [one.ranks.end(grace_s=1) for one in running]
    for one in running:
        one.ranks.close(20)

    assert None not in codes
    assert not [pid for one in running for pid in process.carriers(**one.mark)]
    assert folders
    assert not [folder for folder in folders if Path(folder).exists()]


def _temporary(pid: int) -> list[str]:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return [word.partition("=")[2] for word in words if word.startswith("TMPDIR=")]
