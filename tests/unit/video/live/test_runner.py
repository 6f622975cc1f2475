"""The process of one stream: it ends when it has said how it ended, whatever its analyzer is like."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
EYES = """
import sys, threading
from jetq.video.analyzers.base import Result

class Good:
    def start(self): pass
    def frame(self, picture, t_s): return Result(0.5)
    def stop(self): pass

class BadMade(Good):
    def __init__(self): raise ValueError("no lens")

class BadStart(Good):
    def start(self): raise KeyError("no start")

class BadStop(Good):
    def stop(self): raise KeyError("no stop")

class Quits(Good):
    def __init__(self, at): self.at = at; at == "made" and sys.exit(3)
    def frame(self, picture, t_s): sys.exit(3)

class Slow(Good):
    def frame(self, picture, t_s): threading.Event().wait(2); return Result(0.5)

class Liar(Good):
    def frame(self, picture, t_s): return Result(0.5, values={"n": 77, "at": 1, "score": 2, "own": 3})

class Rare(Good):
    every = 3
    def frame(self, picture, t_s):
        self.seen = getattr(self, "seen", 0) + 1
        return Result(0.5, values={"seen": self.seen}) if self.seen % 2 else None
"""
CODE = "import socket, sys; from jetq.video.live import runner; runner.main(socket.socket(fileno=int(sys.argv[1])))"


class Run:
    """A runner, and the supervisor's side of its channel, which stays open."""

    def __init__(self, folder: Path, analyzer: str, options: dict[str, Any], uri: str) -> None:
        (folder / "wild_eyes.py").write_text(EYES)
        mine, its = socket.socketpair()
        mine.settimeout(30)
        self.said = mine.makefile("rb")
        self.channel = mine
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
        argv = [sys.executable, "-c", CODE, str(its.fileno())]
        self.process = subprocess.Popen(argv, env=environ, pass_fds=[its.fileno()], stderr=subprocess.PIPE, text=True)
        its.close()
        spec = {"uri": uri, "analyzer": analyzer, "options": options}
        told = {"stream": "cam", "token": "t", "spec": spec, "secrets": {}, "files": str(folder / "files")}
        told |= {"files_max_bytes": 1 << 20, "fps": None, "preview": str(folder / "preview")}
        mine.sendall(json.dumps(told).encode() + b"\n")

    def lines(self) -> Iterator[dict[str, Any]]:
        """Give what it says, until it says no more."""
        for line in self.said:
            yield json.loads(line)

    def end(self) -> dict[str, Any]:
        """Return the last that it says, once it has ended."""
        last = list(self.lines())[-1]
        self.process.wait(10)
        return last


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    begun: list[Run] = []

    def begin(analyzer: str, uri: str = "test:ball?size=64x64&fps=30", **options: Any) -> Run:
        begun.append(Run(tmp_path, analyzer, options, uri))
        return begun[-1]

    yield begin
    for one in begun:
        one.channel.close()
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize(
    ("analyzer", "options", "why"),
    [
        ("wild_eyes:BadMade", {}, "its analyzer wild_eyes:BadMade raised ValueError: no lens"),
        ("wild_eyes:BadStart", {}, "its analyzer wild_eyes:BadStart raised KeyError: 'no start'"),
        ("wild_eyes:Quits", {"at": "made"}, "its analyzer wild_eyes:Quits raised SystemExit: 3"),
        ("no_eyes:Good", {}, "module 'no_eyes' cannot be found"),
        ("onnx", {"model": "none.onnx"}, "none.onnx is no file"),
        ("motion", {"speed": 3}, "cannot be made with"),
    ],
)
def test_an_analyzer_that_cannot_begin_fails_the_stream_at_once(run, analyzer: str, options: dict[str, Any], why: str):
    runner = run(analyzer, **options)
    end = runner.end()

    assert end["end"] == "hopeless"
    assert why in end["why"]
    assert runner.process.returncode == 0


def test_what_the_analyzer_raised_is_in_the_log(run):
    runner = run("wild_eyes:BadMade")
    runner.end()

    assert 'raise ValueError("no lens")' in runner.process.stderr.read()


def test_a_runner_that_is_asked_to_end_ends_though_the_supervisor_listens(run):
    runner = run("wild_eyes:BadStop")
    next(line for line in runner.lines() if line.get("results"))
    runner.process.terminate()
    end = runner.end()

    assert (end["end"], runner.process.returncode) == ("stopped", 0)


def test_a_file_that_is_over_ends_its_runner(run, make_video):
    end = run("wild_eyes:Good", f"file:{make_video(frames=10)}").end()

    assert end == {"end": "over", "why": "its file is over"}


def test_every_counts_the_frames_that_are_looked_at_and_none_is_no_result(run, make_video):
    runner = run("wild_eyes:Rare", f"file:{make_video(frames=40)}")
    results = [json.loads(one) for line in runner.lines() for one in line.get("results", ())]

    assert [one["seen"] for one in results] == [1, 3, 5, 7, 9, 11, 13][: len(results)]
    assert [one["n"] for one in results] == [1 + 6 * at for at in range(len(results))]
    assert len(results) > 3


def test_an_analyzer_that_would_end_its_process_has_raised(run):
    line = next(line for line in run("wild_eyes:Quits", at="frame").lines() if line.get("raises", 0) > 2)

    assert line["trace"].endswith("SystemExit: 3\n")


def test_a_look_that_takes_long_is_told_of_while_it_lasts(run):
    lines = run("wild_eyes:Slow").lines()
    first = next(line["busy_s"] for line in lines if "busy_s" in line)
    second = next(lines)["busy_s"]

    assert 0.5 <= first < second < 2.5


def test_no_number_of_an_analyzer_takes_the_place_of_what_results_are_known_by(run, make_video):
    runner = run("wild_eyes:Liar", f"file:{make_video(frames=20)}")
    results = [json.loads(one) for line in runner.lines() for one in line.get("results", ())]

    assert results[0]["n"] == 1
    assert (results[0]["score"], results[0]["own"]) == (0.5, 3)
    assert results[0]["at"] > 1e9
