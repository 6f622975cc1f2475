"""Plans for mpirun, run by the real one: on this machine, and on two hosts (network namespaces) that look like boards.

The hosts have interfaces of different names, and bridges of one equal address, which no peer may be sought at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks._host import Lan
from jetq.launch.base import Member, Plan, Run
from jetq.launch.plans import plan
from jetq.model.gang import GangSpec

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: What a member does that waits for a launch request: it starts its own daemon in its own surroundings.
AGENT = """
import json, os, sys
sys.path.insert(0, {root!r})
from jetq.launch.exec import LaunchRequest
request = LaunchRequest.parse(sys.argv[1:])
own = json.load(open({folder!r} + "/" + request.host))
os.environ.update(own["env"])
argv = request.argv({bin!r} + "/" + request.daemon, own["interface"])
os.execvp("ip", ["ip", "netns", "exec", own["netns"], "unshare", "-u", "sh", "-c", 'hostname "$0"; exec "$@"',
                 own["name"], *argv])
"""
SAY = 'echo "$(hostname) $RANK/$WORLD_SIZE $LOCAL_RANK $GLOO_SOCKET_IFNAME $(pwd) $A"'


class Boards:
    """Two boards, and the folders of the members on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lan = Lan(["eth1", "eth2"])

    def member(self, name: str, board: int) -> Member:
        folder = self.folder / name
        (folder / "work").mkdir(parents=True)
        return Member(
            name,
            self.lan.address(board),
            self.lan.network,
            f"eth{board}",
            str(folder),
            slots=4,
            open_mpi=5,
        )

    def agent(self, made: Plan) -> None:
        """Leave what each host's member knows, for the launch agent."""
        for start in made.starts:
            if start.answers_for:
                board = int(start.answers_for.rpartition(".")[2])
                own = {"env": environment(start.env, self.folder / f"tmp{board}"), "interface": f"eth{board}"}
                own |= {"netns": self.lan.name(board), "name": f"board{board}"}
                (self.folder / start.answers_for).write_text(json.dumps(own))


def environment(added, tmp: Path) -> dict[str, str]:
    tmp.mkdir(exist_ok=True)
    return {**os.environ, **added, "TMPDIR": str(tmp), "PATH": f"{BIN}:{os.environ['PATH']}"}


def run_head(made: Plan, tmp: Path, *around: str) -> subprocess.CompletedProcess[str]:
    head = made.starts[0]
    for path, text in head.files.items():
        Path(path).write_text(text)
    return subprocess.run(
        [*around, *head.argv],
        env=environment(head.env, tmp),
        cwd=head.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def told(done: subprocess.CompletedProcess[str]) -> dict[int, list[str]]:
    """What each rank said, by the number in the tag."""
    lines = [line for line in done.stdout.splitlines() if "<stdout>:" in line]
    return {int(line.split(",")[1].split("]")[0]): line.partition("<stdout>:")[2].split() for line in lines}


def spec(command: str, nodes: int, **more) -> GangSpec:
    root = os.geteuid() == 0
    argv = ("sh", "-c", command)
    return GangSpec(argv, min_nodes=nodes, max_nodes=nodes, launcher="mpirun", as_root=root, **more)


@pytest.fixture
def boards(tmp_path) -> Iterator[Boards]:
    made = Boards(tmp_path)
    try:
        made.lan.build()
        yield made
    finally:
        made.lan.remove()


def test_two_nodes_of_one_machine_run_one_gang(tmp_path):
    members = []
    for name in ("a", "b"):
        (tmp_path / name / "work").mkdir(parents=True)
        members.append(Member(name, "127.0.0.1", "127.0.0.0/8", "lo", str(tmp_path / name), slots=2, open_mpi=5))

    tricky = "x;y, \"z\" $HOME 'w'"
    made = plan(spec(SAY, 2, ranks=2, env={"A": tricky}), members, Run("g.1", 29400))
    done = run_head(made, tmp_path / "tmp")

    assert done.returncode == 0, done.stderr
    assert sorted(told(done)) == [0, 1, 2, 3]
    work = str(tmp_path / "a" / "work")
    assert told(done)[3][1:] == ["3/4", "3", "lo", work, *tricky.split()]


def test_ranks_on_another_host_run_in_its_own_surroundings(boards, tmp_path):
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(root=str(ROOT), folder=str(tmp_path), bin=str(BIN)))
    members = [boards.member("a", 1), boards.member("b", 2), boards.member("c", 2)]
    made = plan(spec(SAY, 3, env={"A": "a"}), members, Run("g.1", 29400, agent=(sys.executable, str(agent))))
    boards.agent(made)
    on_first = (
        "ip",
        "netns",
        "exec",
        boards.lan.name(1),
        "unshare",
        "-u",
        "sh",
        "-c",
        'hostname board1; exec "$0" "$@"',
    )

    done = run_head(made, tmp_path / "tmp1", *on_first)

    assert done.returncode == 0, done.stderr
    assert told(done) == {
        0: ["board1", "0/3", "0", "eth1", f"{tmp_path}/a/work", "a"],
        1: ["board2", "1/3", "0", "eth2", f"{tmp_path}/b/work", "a"],
        2: ["board2", "2/3", "1", "eth2", f"{tmp_path}/b/work", "a"],
    }
    assert "WARNING" not in done.stderr


def test_mpirun_ends_with_the_code_of_the_rank_that_failed(tmp_path):
    (tmp_path / "work").mkdir()
    here = Member("a", "127.0.0.1", "127.0.0.0/8", "lo", str(tmp_path), slots=2, open_mpi=5)
    made = plan(spec('[ "$RANK" = 0 ] || exit 7', 1, ranks=2), [here], Run("g.1", 29400))

    assert run_head(made, tmp_path / "tmp").returncode == 7
