"""Processes of a member are run and ended with real ones: whatever they do, they are told of, and none is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetq import ids, process
from jetq.errors import JetqError
from jetq.launch.output import Line, Output
from jetq.service.ranks import LEFT_S, RankProcess, environment

#: A grandchild that is a daemon: its parent has ended, its session is its own.
DAEMON = "(setsid sh -c '{what}' &) ; "
DEAF = 'trap "" TERM; '


class Trial:
    """A RankProcess that runs shell code, and what it has said."""

    def __init__(self, code: str, cwd: Path, **env: str) -> None:
        self.lines: list[Line] = []
        self.mark = {"JETQ_MEMBER": ids.random64()}
        self.ranks = RankProcess(
            ["sh", "-c", code],
            env={**env, **self.mark},
            cwd=str(cwd),
            folder=cwd,
            output=Output.of_daemon(),
            take=self.lines.append,
            mark="JETQ_MEMBER",
        )

    @property
    def said(self) -> list[str]:
        return [line.text for line in self.lines]

    def pids(self) -> list[int]:
        """The numbers that it has said."""
        return [int(text) for text in self.said if text.isdigit()]

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if process.born(pid) is not None]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator:
    """Give ``trial(code, **env)``: started; all of it is killed in the end."""
    made: list[Trial] = []

    def start(code: str, **env: str) -> Trial:
        made.append(Trial(code, tmp_path, **env))
        made[-1].ranks.start()
        return made[-1]

    yield start
    for one in made:
        one.ranks.close(10)


@pytest.fixture
def ended(wait_until):
    """Give ``ended(trial) -> code``: waits until it is over, and clears up."""

    def wait(one: Trial, within_s: float = 20.0) -> int:
        wait_until(lambda: one.ranks.poll() is not None, within_s=within_s, what="the end")
        code = one.ranks.poll()
        one.ranks.close(10)
        return code

    return wait


def test_it_says_what_it_writes_and_how_it_ended(trial, ended, tmp_path: Path):
    one = trial('pwd; echo "$WORD" >&2; exit 3', WORD="a b")

    assert ended(one) == 3
    assert one.said == [str(tmp_path), "a b"]
    assert one.ranks.tail(None) == one.said


def test_a_signal_is_a_code_below_nought(trial, ended):
    assert ended(trial("kill -9 $$")) == -signal.SIGKILL


def test_ranks_find_the_nodes_own_python_and_nothing_of_its_own_business():
    lane = {"PATH": "/usr/bin", "JETQ_MARK": "m", "JETQ_NODE": "a", "JETQ_EPOCH": "e", "JETQ_OUTPUT": "o", "HOME": "/h"}
    added = {"JETQ_JOB_ID": "j", "HOME": "/other"}
    own = str(Path(sys.executable).parent)

    assert environment(lane, added) == {
        "PATH": f"{own}:/usr/bin",
        "JETQ_MARK": "m",
        "JETQ_NODE": "a",
        "HOME": "/other",
        "JETQ_JOB_ID": "j",
    }
    assert environment({"PATH": f"{own}:/bin"}, {})["PATH"] == f"{own}:/bin"
    assert environment({}, {})["PATH"].startswith(f"{own}:")


def test_temporary_files_are_its_own_on_a_short_path_and_go_with_it(trial, ended):
    one = trial('echo "$TMPDIR"; touch "$TMPDIR/x"; mkdir "$TMPDIR/d"')

    assert ended(one) == 0
    (folder,) = one.said
    assert len(folder) <= 40
    assert not Path(folder).exists()


@pytest.mark.parametrize("what", ["missing", "not executable", "no folder"])
def test_what_cannot_be_started_is_one_clear_line_and_leaves_nothing(what: str, tmp_path: Path):
    (tmp_path / "plain").write_text("no program")
    argv = {"missing": "no-such-program-here", "not executable": str(tmp_path / "plain"), "no folder": "true"}[what]
    before = set(os.listdir("/proc/self/fd"))
    ranks = RankProcess(
        [argv],
        env={"PATH": "/usr/bin:/bin", "JETQ_MEMBER": ids.random64()},
        cwd=str(tmp_path / "nowhere" if what == "no folder" else tmp_path),
        folder=tmp_path,
        output=Output.of_daemon(),
        take=print,
        mark="JETQ_MEMBER",
    )

    with pytest.raises(JetqError, match=f"cannot start '{argv}'"):
        ranks.start()

    assert (ranks.poll(), ranks.end(), ranks.pid, ranks.tail(0)) == (None, None, None, [])
    ranks.close(5)
    assert set(os.listdir("/proc/self/fd")) == before


def test_much_without_a_line_break_is_cut_and_holds_nothing_up(trial, ended):
    one = trial("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end")

    assert ended(one, within_s=60) == 0
    assert one.said[-1] == "end"
    assert sum(len(text) for text in one.said if set(text) == {"x"}) + 65536 * one.ranks.dropped >= 100_000_000


def test_one_that_closes_its_output_goes_on(trial, wait_until, ended, tmp_path: Path):
    one = trial(f"echo here; exec >&- 2>&-; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 4")
    wait_until(lambda: one.said == ["here"], what="its line")

    assert one.ranks.poll() is None

    (tmp_path / "go").touch()
    assert ended(one) == 4


def test_a_first_process_that_leaves_others_behind_is_over_once_they_are_gone(trial, ended):
    one = trial("sleep 600 & echo $!; exit 0")

    assert ended(one) == 0
    assert len(one.pids()) == 1
    assert not one.alive()


def test_what_is_left_behind_and_ignores_sigterm_is_killed(trial, ended):
    one = trial(DAEMON.format(what=f"{DEAF}echo $$; while :; do sleep 1; done") + "sleep 0.5; exit 5")
    begun_s = time.monotonic()

    assert ended(one) == 5
    assert time.monotonic() - begun_s >= LEFT_S
    assert len(one.pids()) == 1
    assert not one.alive()


def test_ranks_may_end_in_their_own_way(trial, wait_until):
    one = trial("trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: one.said, what="its line")

    assert one.ranks.end() == 7
    one.ranks.close(5)
    assert (one.said[0], one.said[-1]) == ("ready", "saved")


FAMILIES = {
    "a wrapper": "sleep 600 & echo $!; wait",
    "its own session": "setsid sleep 600 & echo $!; wait",
    "a daemon": DAEMON.format(what="echo $$; exec sleep 600") + "exec sleep 600",
    "no variables": "env -i setsid sleep 600 & echo $!; wait",
    "its own group": "set -m; sleep 600 & echo $!; wait",
}


@pytest.mark.parametrize("how", FAMILIES)
@pytest.mark.parametrize("deaf", [False, True])
def test_all_of_it_ends_wherever_it_has_moved(trial, wait_until, how: str, deaf: bool):
    one = trial((DEAF if deaf else "") + FAMILIES[how])
    wait_until(one.alive, what="the family")

    code = one.ranks.end(grace_s=0.3 if deaf else 10)

    assert code == (-signal.SIGKILL if deaf else -signal.SIGTERM)
    assert not one.alive()
    assert process.carriers(**one.mark) == []
    one.ranks.close(0)


def test_a_stopped_process_is_ended(trial, wait_until):
    one = trial("echo $$; kill -STOP $$")
    wait_until(one.alive, what="the process")

    assert one.ranks.end(grace_s=0.2) == -signal.SIGKILL


@pytest.mark.parametrize(("rank", "waits_s"), [("", 2.0), ("OMPI_COMM_WORLD_RANK=0", 4.0)], ids=["launcher", "rank"])
def test_a_launcher_that_is_left_alone_is_not_waited_for_once_all_ranks_have_ended(trial, wait_until, rank, waits_s):
    one = trial(f"{DEAF} echo $$; while :; do {rank} sleep 600; done")
    wait_until(one.alive, what="the launcher")

    began_s = time.monotonic()
    one.ranks.end(grace_s=4.0, others_done=lambda: True)

    assert waits_s <= time.monotonic() - began_s < waits_s + 1.9


def test_one_that_starts_others_all_the_time_is_ended(trial, wait_until):
    one = trial(f"{DEAF} echo $$; while :; do setsid sh -c '{DEAF} sleep 600' & sleep 0.02; done")
    wait_until(lambda: len(process.carriers(**one.mark)) > 10, what="a crowd")

    assert one.ranks.end(grace_s=0.1) == -signal.SIGKILL
    assert process.carriers(**one.mark) == []


def test_what_cannot_be_killed_in_time_is_named(trial, wait_until):
    one = trial(f"{DEAF} echo $$; while :; do sleep 600; done")
    wait_until(one.alive, what="the process")
    (pid,) = one.pids()

    with pytest.raises(JetqError, match=rf"processes .*{pid} \(sh\).* cannot be killed"):
        one.ranks.close(0)

    one.ranks.close(10)
    assert one.ranks.poll() == -signal.SIGKILL


def test_others_on_the_machine_are_left_alone(trial, wait_until):
    other = trial("sleep 600 & echo $!; wait")
    one = trial("sleep 600 & echo $!; wait")
    wait_until(lambda: one.alive() and other.alive(), what="both")

    one.ranks.end()
    one.ranks.close(5)

    assert not one.alive()
    assert other.alive()
    assert other.ranks.poll() is None
