"""The examples of gangs, started by the real torchrun and mpirun with the command lines that jetq plans."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from jetq.launch.advice import advise
from jetq.launch.base import Member, Run
from jetq.launch.plans import plan
from jetq.model.gang import GangSpec

ROOT = Path(__file__).resolve().parents[2]
DDP, MPI = ROOT / "examples" / "ddp", ROOT / "examples" / "mpi"
BIN = Path(sys.executable).parent
#: For all ranks of a gang together; one takes a few seconds on an idle machine (s).
WITHIN_S = 120


class Gang:
    """A gang of two members on this machine, and what outlives its attempts."""

    def __init__(self, folder: Path, launcher: str, *argv: str) -> None:
        self.folder = folder
        self.launcher = launcher
        self.argv = argv
        self.attempt = 0

    def run(self, *, ranks: int = 1) -> list[str]:
        """Make one attempt. Returns the lines of all ranks without their tags."""
        self.attempt += 1
        members = [self._member(name) for name in ("a", "b")]
        known = {"JETQ_CKPT_DIR": "checkpoints", "JETQ_PROGRESS": str(self.folder / "progress.json")}
        known |= {"JETQ_ATTEMPT": str(self.attempt)}
        root = os.geteuid() == 0
        spec = GangSpec(self.argv, 2, 2, ranks, launcher=self.launcher, as_root=root and self.launcher == "mpirun")
        made = plan(spec, members, Run(f"g.{self.attempt}", free_port(), known))
        for path, text in ((path, text) for start in made.starts for path, text in start.files.items()):
            Path(path).write_text(text)
        running = [started(start.argv, start.env, start.cwd) for start in made.starts if start.argv]
        return [re.sub(r"^(\[default\d+\]:|\[1,\d+\]<\w+>: ?)", "", line) for line in outputs(running)]

    def reported(self) -> dict[str, object]:
        """What rank 0 has said of its progress."""
        return json.loads((self.folder / "progress.json").read_text())

    def _member(self, name: str) -> Member:
        folder = self.folder / name
        (folder / "work").mkdir(parents=True, exist_ok=True)
        return Member(name, "127.0.0.1", "127.0.0.0/8", "lo", str(folder), slots=4, open_mpi=5)


def started(argv: tuple[str, ...], added: Mapping[str, str], cwd: Path | str) -> subprocess.Popen[str]:
    common = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env={**os.environ, **common, **added},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outputs(running: list[subprocess.Popen[str]]) -> list[str]:
    """Wait for all. Returns what they wrote; all have ended well."""
    end_s = time.monotonic() + WITHIN_S
    try:
        texts = [one.communicate(timeout=max(1, end_s - time.monotonic()))[0] for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [0] * len(running), texts
    return [line for text in texts for line in text.splitlines()]


def mpirun(ranks: int, *command: str, cwd: Path, **added: str) -> subprocess.Popen[str]:
    """Start a command by a bare mpirun, as one would by hand."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    words = ("mpirun", *root, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-np", str(ranks), *command)
    return started(words, {"TMPDIR": "/tmp", **added}, cwd)  # its sockets need short paths


def losses(lines: list[str]) -> dict[int, float]:
    """The loss of each epoch that was trained."""
    found = (re.fullmatch(r"epoch (\d+)/\d+ loss ([\d.]+) right \d+%", line) for line in lines)
    return {int(match[1]): float(match[2]) for match in found if match}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_the_example_learns_and_its_next_attempt_goes_on(tmp_path, launcher):
    train = ("python", str(DDP / "train.py"), "--steps", "25", "--epochs")
    gang = Gang(tmp_path, launcher, *train, "3")

    learned = losses(gang.run())
    gang.argv = (*train, "4")
    again = gang.run()

    assert list(learned) == [1, 2, 3]
    assert learned[3] < 0.6 * learned[1]
    assert "attempt 2 resumes after epoch 3" in again
    assert list(losses(again)) == [4]
    assert losses(again)[4] < learned[3] * 1.2
    assert gang.reported()["step"] == gang.reported()["total"] == 4 * 25
    assert (tmp_path / "a" / "work" / "checkpoints" / "checkpoint.pt").exists()


def test_the_example_learns_the_same_by_hand_and_by_either_launcher(tmp_path):
    script = (str(DDP / "train.py"), "--epochs", "1", "--steps", "3", "--seed", "7")
    bare = outputs([mpirun(2, sys.executable, *script, cwd=tmp_path, JETQ_CKPT_DIR=str(tmp_path / "bare"))])
    (tmp_path / "gang").mkdir()
    planned = Gang(tmp_path / "gang", "torchrun", "python", *script).run()
    alone = outputs([started((sys.executable, *script), {}, tmp_path)])
    again = outputs([started((sys.executable, *script), {}, tmp_path)])

    assert losses(bare) == losses(planned) != {}
    assert any("2 ranks on cpu by gloo" in line for line in bare)
    assert list(losses(alone)) == [1]
    assert any("all 1 epochs are done" in line for line in again)


def test_pi_is_computed_by_all_ranks(tmp_path):
    lines = Gang(tmp_path, "mpirun", "python", str(MPI / "pi.py"), "--strips", "100000").run()

    [line] = [line for line in lines if line.startswith("pi ")]
    assert line.startswith("pi 3.14159265")
    assert f"2 ranks on {socket.gethostname()}" in line


def test_the_bandwidth_of_an_allreduce_is_measured(tmp_path):
    words = (sys.executable, str(MPI / "bandwidth.py"), "--repeat", "2", "--most", "70000")
    lines = outputs([mpirun(2, *words, cwd=tmp_path)])

    rows = [line.split() for line in lines if re.match(r" +\d+ ", line)]
    assert [int(size) for size, _, _ in rows] == [1024, 4096, 16384, 65536]
    assert all(float(rate) > 0 for _, _, rate in rows)


def test_a_c_program_is_compiled_once_on_a_machine_and_run_by_all_ranks(tmp_path):
    gang = Gang(tmp_path, "mpirun", "sh", str(MPI / "hello.sh"))
    lines = gang.run(ranks=2)

    assert sorted(line.split(" on ")[0] for line in lines if line.startswith("hello")) == [
        f"hello from rank {rank} of 4" for rank in range(4)
    ]
    assert "sum of ranks 6" in lines
    assert not list((tmp_path / "a" / "work").iterdir())


def test_a_c_program_that_does_not_compile_ends_all_ranks(tmp_path):
    (tmp_path / "hello.sh").write_text((MPI / "hello.sh").read_text())
    (tmp_path / "hello_mpi.c").write_text("int main(")

    failed = mpirun(2, "sh", "./hello.sh", cwd=tmp_path)
    text = failed.communicate(timeout=WITHIN_S)[0]

    assert failed.returncode == 1
    assert "hello_mpi.c:1" in text


@pytest.mark.parametrize("script", ["ddp/train.py", "mpi/pi.py", "mpi/bandwidth.py"])
def test_preparing_a_gang_has_nothing_against_the_examples(script):
    assert advise(["python", script], lambda path: (ROOT / "examples" / path).read_text()) == []
