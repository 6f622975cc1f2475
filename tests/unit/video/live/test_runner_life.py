"""The process of one stream, as its supervisor sees it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetq.model.credentials import Secret
from jetq.model.stream import StreamSpec

ROOT = Path(__file__).resolve().parents[4]
MAIN = "import socket, sys; from jetq.video.live import runner; runner.main(socket.socket(fileno=int(sys.argv[1])))"
#: A camera that a test has made up: it raises what no camera of ours raises, or says that it was closed.
MADE_UP = """
import pathlib, socket, sys, threading
from jetq.video.capture.base import Described
from jetq.video.live import runner

class Camera:
    described = Described("made up", 16, 16, 15.0, "")

    def grab(self, *, wanted):
        threading.Event().wait(0.1)
        if {raises}:
            raise ZeroDivisionError("geheim")
        return runner.Grabbed(runner.time.monotonic(), None)

    def close(self):
        pathlib.Path("{folder}/closed").touch()

runner.open_camera = lambda *_: Camera()
runner.main(socket.socket(fileno=int(sys.argv[1])))
"""
OURS = """
import threading
from jetq.video.analyzers.base import Result

class Ours:
    def __init__(self, raises=False, nones=False, every=1, starts=True):
        self.raises, self.nones, self.every, self.starts = raises, nones, every, starts

    def start(self):
        if not self.starts:
            raise MemoryError("no room for geheim")

    def frame(self, picture, at_s):
        if self.raises:
            raise KeyError("geheim")
        return None if self.nones else Result(0.5)

    def stop(self):
        pass
"""


class Trial:
    """A runner, and what it says."""

    def __init__(self, folder: Path, fps: float | None, secret: str, spec: StreamSpec, main: str = MAIN) -> None:
        self.folder = folder
        self.channel, theirs = socket.socketpair()
        argv = [sys.executable, "-c", main, str(theirs.fileno())]
        env = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
        self.process = subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
        theirs.close()
        self.channel.settimeout(60)
        told: dict[str, Any] = {
            "stream": "x",
            "token": "0-a",
            "secrets": {"https://***@there/in": Secret("admin", secret).as_json()} if secret else {},
            "files": str(folder),
            "files_max_bytes": 1 << 20,
            "fps": fps,
            "preview": "",
            "spec": spec.as_json(),
        }
        self.say(told)
        self._lines = self.channel.makefile("r")

    def say(self, words: dict[str, Any]) -> None:
        self.channel.sendall(json.dumps(words).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        line = self._lines.readline()
        assert line, "it has ended"
        words: dict[str, Any] = json.loads(line)
        return words

    def until(self, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Hear it until something holds."""
        while not holds(said := self.hear()):
            assert "end" not in said, said
        return said

    def reports(self, seconds: float) -> list[dict[str, Any]]:
        """Its reports over so many seconds of its own."""
        said: list[dict[str, Any]] = []
        while len(said) < seconds * 4:
            words = self.hear()
            if "fps_in" in words:
                said.append(words)
        return said

    def close(self) -> None:
        self.process.kill()
        self._lines.close()
        self.channel.close()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process.wait(10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Trial]]:
    (tmp_path / "ours.py").write_text(OURS)
    made: list[Trial] = []

    def begin(
        uri: str = "test:ball", *, fps: float | None = None, secret: str = "", main: str = MAIN, **fields: Any
    ) -> Trial:
        fields.setdefault("analyzer", "ours:Ours")
        made.append(Trial(tmp_path, fps, secret, StreamSpec(uri, fps=fps, **fields), main))
        return made[-1]

    yield begin
    for trial in made:
        trial.close()


def test_it_says_what_its_camera_is_then_what_it_sees(start):
    trial = start("test:ball?size=320x240&fps=20")

    opened = trial.hear()["opened"]
    assert (opened["backend"], opened["width"], opened["height"]) == ("drawn", 320, 240)
    said = trial.until(lambda words: words.get("results"))
    line = json.loads(said["results"][0])
    assert (line["n"], line["stream"], line["token"]) == (1, "x", "0-a")
    assert said["good"] >= 1
    later = trial.reports(2)[-1]
    assert 2 < later["fps_in"] < 30
    assert later["latency_p50_s"] is not None
    assert later["rss_bytes"] > 10 << 20


def test_it_looks_at_no_more_frames_than_it_may_and_hears_of_another_rate(start):
    trial = start("test:ball?fps=25", fps=2.0)
    slow = trial.reports(4)
    assert sum(len(said["results"]) for said in slow) <= 2.0 * slow[-1]["frames"] / 25 + 2
    assert all(said["good"] for said in slow[4:]), "frames come, though nobody looks at them"

    trial.say({"fps": None, "owns": True})

    trial.until(lambda words: words.get("fps_out", 0) > 4)


def test_frames_that_its_analyzer_does_not_want_are_good_frames(start):
    trial = start("test:ball?fps=25", options={"every": 1000})

    assert all(said["good"] for said in trial.reports(3)[2:])


def test_a_frame_may_have_no_result(start):
    trial = start("test:ball?fps=25", options={"nones": True})

    reports = trial.reports(2)
    assert all(said["good"] for said in reports[2:])
    assert not any(said["results"] for said in reports)


def test_an_analyzer_that_raises_is_told_of_without_secrets(start):
    trial = start("test:ball?fps=25", secret="geheim", options={"raises": True})

    said = trial.until(lambda words: words.get("raises", 0) >= 10)

    assert said["good"] == 0
    assert "KeyError" in said["trace"]
    assert "geheim" not in said["trace"]


@pytest.mark.parametrize("analyzer", ["ours:Nobody", "nowhere:Ours", "onnx"])
def test_what_cannot_be_had_is_hopeless(start, analyzer):
    end = start(analyzer=analyzer).until(lambda words: "end" in words)

    assert end["end"] == "hopeless"
    assert end["why"]


@pytest.mark.parametrize("options", [{"wrong": 1}, {"starts": False}])
def test_an_analyzer_that_cannot_begin_is_hopeless_and_told_of_without_secrets(start, options):
    trial = start(secret="geheim", options=options)

    end = trial.until(lambda words: "end" in words)

    assert end["end"] == "hopeless"
    assert "geheim" not in end["why"]
    assert trial.process.wait(30) == 0


def test_a_file_ends_well(start, clips):
    clip = sorted(Path(clips).glob("*.mp4"))[0]
    trial = start(f"file:{clip}")

    end = trial.until(lambda words: "end" in words)

    assert end["end"] == "over"
    assert trial.process.wait(30) == 0


def test_who_is_asked_to_end_closes_what_it_writes(start):
    trial = start("test:ball?fps=25", sinks=("jsonl", "mp4"))
    trial.say({"fps": None, "owns": True})
    trial.until(lambda words: sum(sink["kept"] for sink in words.get("sinks", [])) > 20)

    trial.process.send_signal(signal.SIGTERM)

    end = trial.until(lambda words: "end" in words)
    assert end == {"end": "stopped", "why": "asked to end"}
    assert trial.process.wait(30) == 0
    [lines] = trial.folder.glob("results-*.jsonl")
    assert len([json.loads(line) for line in lines.read_text().splitlines()]) > 5
    assert [film.stat().st_size > 1000 for film in trial.folder.glob("film-*.mp4")] == [True]


def test_an_heir_writes_nothing(start):
    trial = start("test:ball?fps=25", sinks=("jsonl",))
    trial.say({"fps": None, "owns": False})

    trial.reports(2)

    assert list(trial.folder.glob("results-*.jsonl")) == []


def test_it_ends_when_its_supervisor_is_gone(start):
    trial = start()
    trial.hear()

    trial.channel.shutdown(socket.SHUT_RDWR)

    assert trial.process.wait(30) == 0


def test_who_is_told_nothing_ends(tmp_path):
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-c", MAIN, str(theirs.fileno())]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()]) as started:
        theirs.close()
        ours.close()
        assert started.wait(60) == 0


def test_a_camera_is_closed_before_its_process_ends(start, tmp_path):
    trial = start(main=MADE_UP.format(raises=False, folder=tmp_path))
    trial.reports(1)

    trial.process.send_signal(signal.SIGTERM)

    assert trial.process.wait(30) == 0
    assert (tmp_path / "closed").exists()


def test_a_driver_that_raises_what_nobody_expects_is_a_camera_that_broke(start, tmp_path):
    trial = start(secret="geheim", main=MADE_UP.format(raises=True, folder=tmp_path))

    end = trial.until(lambda words: "end" in words)

    assert end == {"end": "broken", "why": "what reads its camera raised ZeroDivisionError: ***"}
    assert (tmp_path / "closed").exists()
