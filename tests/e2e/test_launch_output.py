"""What the real torchrun and mpirun write is read as what their ranks said, and who failed first is known."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from jetq.launch.base import Member, Plan, Run
from jetq.launch.causes import RootCause
from jetq.launch.output import Line, Output
from jetq.launch.plans import plan
from jetq.model.gang import GangSpec

BIN = Path(sys.executable).parent
RANK = """
import os, sys
from time import sleep
rank = int(os.environ["RANK"])
print("hello from", rank)
print("broken", end=" "); sleep(0.2); print("line")
if rank == 3:
    {fails}
sleep(60)
"""


def planned(folder: Path, launcher: str, fails: str, nodes: int, ranks: int) -> Plan:
    program = folder / "rank.py"
    program.write_text(RANK.format(fails=fails))
    spec = GangSpec((sys.executable, str(program)), nodes, nodes, ranks, 0.1, launcher=launcher, as_root=True)
    members = []
    for number in range(nodes):
        place = folder / f"n{number}"
        (place / "work").mkdir(parents=True)
        members.append(Member(f"n{number}", "127.0.0.1", "127.0.0.0/8", "lo", str(place), 8.0, open_mpi=5))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return plan(spec, members, Run("r1", port))


def written(made: Plan) -> list[bytes]:
    """Run what a plan starts, until the last has ended; return what each wrote.

    Then the others are ended: a torchrun whose peer has failed does not hear of it.
    """
    starts = [start for start in made.starts if start.argv]
    running = []
    for start in starts:
        for path, text in start.files.items():
            Path(path).write_text(text)
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **start.env}
        with open(f"{start.cwd}.out", "wb") as out:
            running.append(subprocess.Popen(start.argv, env=env, cwd=start.cwd, stdout=out, stderr=out))
    try:
        running[-1].wait(90)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)
    return [Path(f"{start.cwd}.out").read_bytes() for start in starts]


def test_each_torchrun_tells_of_its_own_ranks_by_their_global_numbers(tmp_path: Path):
    made = planned(tmp_path, "torchrun", "sys.exit(3)", nodes=2, ranks=2)
    texts = written(made)
    lines: list[Line] = []
    causes = []
    for start, text in zip(made.starts, texts, strict=True):
        output = Output.of_torchrun(start.ranks)
        lines += output.feed(text) + output.close()
        causes.append(output.cause)

    assert {line for line in lines if line.text.startswith("hello")} == {Line(n, f"hello from {n}") for n in range(4)}
    assert {line.rank for line in lines if line.text == "broken line"} == {0, 1, 2, 3}
    assert causes[1] == RootCause(3, 3, "exited with code 3")


def test_mpirun_tells_of_all_ranks(tmp_path: Path):
    made = planned(tmp_path, "mpirun", "os.kill(os.getpid(), 9)", nodes=2, ranks=2)
    (text,) = written(made)
    output = Output.of_mpirun(5, 4)
    lines = output.feed(text) + output.close()

    assert {line for line in lines if line.text.startswith("hello")} == {Line(n, f"hello from {n}") for n in range(4)}
    assert {line.rank for line in lines if line.text == "broken line"} == {0, 1, 2, 3}
    assert output.cause == RootCause(3, -9, "was killed by signal 9 (SIGKILL)")
