"""A seat on its node, with real runners and a ledger in memory: what it tells, what it does on faults."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jetq.clock import boot_s
from jetq.errors import BrokerDown, NoSuchJob, UsageError
from jetq.model.charge import Charge, End
from jetq.model.credentials import Secret
from jetq.model.stream import StreamSpec
from jetq.service import watch
from jetq.service.cooling import Cooling
from jetq.service.post import Post
from jetq.service.runners import Runners
from jetq.service.stream_run import StreamRun
from jetq.store.streaming import Heard

ROOT = Path(__file__).resolve().parents[3]
OURS = """
import os, sys, threading
from jetq.video.analyzers.base import Result

class Ours:
    def __init__(self, says="", hangs=False, raises=False, mute=False):
        self.says, self.hangs, self.raises, self.mute = says, hangs, raises, mute

    def start(self):
        if self.says:
            print(self.says, file=sys.stderr)

    def frame(self, picture, at_s):
        if self.raises:
            raise ValueError("the password is geheim")
        if self.hangs:
            threading.Event().wait()
        if self.mute:
            os.closerange(3, 100)
            threading.Event().wait()
        return Result(0.5, (), {"pid": os.getpid()})

    def stop(self):
        print("stopped well", flush=True)
"""


class Book:
    """What a seat asks, answered by a test."""

    def __init__(self) -> None:
        self.charged: Charge | None = None
        self.later: Charge | None = None  # what is wanted once a seat has read that
        self.here = threading.Event()
        self.here.set()
        self.owns, self.garbles = True, False
        self.told: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.ready: list[bool] = []

    def charge(self, seat_id: str) -> Charge:
        if not self.here.is_set():
            raise BrokerDown("away")
        if self.charged is None:
            raise NoSuchJob(seat_id)
        charged, self.later = self.charged, self.later or self.charged
        self.charged = self.later
        return charged

    def tell_seat(self, seat_id, token, telemetry, load, results, *, first, ready):
        if not self.here.is_set():
            raise BrokerDown("away")
        if self.garbles:
            raise ValueError("no answer that anybody could read")
        self.told.append(json.loads(telemetry))
        self.results += [json.loads(result) for result in results]
        self.ready.append(ready)
        return Heard(self.owns, self.charged.version, {}) if self.charged else None

    def change(self, **fields: Any) -> None:
        assert self.charged is not None
        spec = replace(self.charged.spec, **fields)
        self.charged = self.later = replace(self.charged, version=self.charged.version + 1, spec=spec)


class Trial:
    """One seat."""

    def __init__(self, folder: Path, runners: Runners) -> None:
        self.book, self.stop, self._runners = Book(), threading.Event(), runners
        self.folder = folder
        self.ended: list[End | Exception] = []
        self._thread = threading.Thread(target=self._run)
        self._out = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def start(self, uri: str = "test:ball", *, secret: Secret | None = None, **fields: Any) -> None:
        spec = StreamSpec(uri, **fields)
        self.book.charged = Charge("x", 1, 1, spec, {} if secret is None else {uri: secret}, "pc")
        self.go()

    def go(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        post = Post("x.1", "0-a", "a", self.stop, "", self.folder / "jobs", None, self.allowed)
        try:
            self.ended.append(StreamRun(self.book, post, self._runners, Cooling(clock=boot_s)).run())
        except UsageError as exc:
            self.ended.append(exc)

    allowed: tuple[str, ...] = ()

    @property
    def last(self) -> dict[str, Any]:
        return self.book.told[-1] if self.book.told else {}

    @property
    def pid(self) -> int:
        """The runner that has told last."""
        return int(self.book.results[-1]["pid"]) if self.book.results else 0

    def end(self) -> End | Exception:
        self.stop.set()
        return self.wait()

    def wait(self, within_s: float = 20.0) -> End | Exception:
        self._thread.join(within_s)
        assert self.ended, "it has not ended"
        return self.ended[0]

    def close(self) -> None:
        self.stop.set()
        if self._thread.ident:
            self._thread.join(20)
        os.close(self._out)


@pytest.fixture(scope="module")
def runners(tmp_path_factory) -> Iterator[Runners]:
    folder = tmp_path_factory.mktemp("ours")
    (folder / "ours.py").write_text(OURS)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{folder}:{ROOT}"
    made = Runners()
    made.warm_up()
    yield made
    made.close()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def trial(tmp_path: Path, runners) -> Iterator[Trial]:
    made = Trial(tmp_path, runners)
    yield made
    made.close()


def running(trial: Trial, wait_until) -> int:
    wait_until(lambda: trial.pid, what="a result")
    return trial.pid


def test_a_seat_streams_and_tells_until_it_shall_end(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours")
    wait_until(lambda: len(trial.book.results) > 10, what="some results")

    assert trial.last["state"] == "streaming"
    assert trial.book.ready[-1]
    assert trial.last["fps_in"] > 5
    pid, began_s = trial.pid, time.monotonic()
    assert trial.end() == End("stopped")
    assert time.monotonic() - began_s < 2.0, "its runner ends when it is asked to"
    assert trial.last["state"] == "streaming", "that is no failure"
    assert not os.path.exists(f"/proc/{pid}")
    assert [result["n"] for result in trial.book.results] == sorted(result["n"] for result in trial.book.results)


def test_a_runner_that_is_killed_is_followed_by_another_after_a_while(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours")
    first = running(trial, wait_until)

    os.kill(first, signal.SIGKILL)

    wait_until(lambda: trial.last["state"] == "backoff", what="a pause")
    assert trial.last["why"] == "its runner was killed by signal 9"
    wait_until(lambda: trial.pid != first and trial.last["state"] == "streaming", what="the next one")
    assert trial.last["reconnects"] == 1


def test_a_runner_that_hangs_is_killed(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours", stall_s=1.0)
    first = running(trial, wait_until)

    os.kill(first, signal.SIGSTOP)

    wait_until(lambda: trial.last["state"] == "backoff", what="its end")
    assert "no frame for" in trial.last["why"]
    wait_until(lambda: trial.pid != first, what="the next one")


def test_a_runner_that_hangs_is_killed_while_the_broker_is_away(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours", stall_s=1.0)
    first = running(trial, wait_until)
    trial.book.here.clear()
    trial.book.change(fps=2.0)

    os.kill(first, signal.SIGSTOP)

    wait_until(lambda: not os.path.exists(f"/proc/{first}"), what="its end")


def test_a_runner_that_says_nothing_any_more_is_killed_at_once(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours", options={"mute": True}, stall_s=600.0)

    wait_until(lambda: trial.last.get("state") == "backoff", what="its end")


def test_a_change_begins_anew_and_is_no_failure(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours")
    first = running(trial, wait_until)

    trial.book.change(options={"says": "changed"})

    wait_until(lambda: trial.pid != first and trial.last["state"] == "streaming", what="another runner")
    assert not any(told["state"] == "backoff" for told in trial.book.told)


def test_a_change_of_the_rate_keeps_its_runner(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours")
    first = running(trial, wait_until)

    trial.book.change(fps=2.0, cost=1.5)

    wait_until(lambda: trial.last.get("fps_out", 15) < 4, within_s=20, what="fewer looks")
    assert trial.pid == first


def test_a_change_before_the_first_answer_is_heard_of(trial, wait_until) -> None:
    spec = StreamSpec("test:ball", analyzer="ours:Ours")
    trial.book.later = Charge("x", 1, 7, replace(spec, options={"says": "changed"}), {}, "pc")

    trial.start(analyzer="ours:Ours")

    first = running(trial, wait_until)
    wait_until(lambda: trial.pid != first, what="another runner")


def test_an_analyzer_that_raises_again_and_again_fails_its_stream_without_telling_secrets(trial) -> None:
    trial.start(
        "test:ball?fps=60",
        analyzer="ours:Ours",
        options={"raises": True},
        secret=Secret("admin", "geheim"),
    )

    end = trial.wait(60)

    assert isinstance(end, End)
    assert end.how == "failed"
    assert "3 times in a row" in end.why
    assert "ValueError: the password is ***" in end.traceback
    assert "geheim" not in json.dumps(trial.book.told)


def test_a_camera_that_is_not_there_is_tried_again_and_again(trial, wait_until) -> None:
    trial.start("rtsp://127.0.0.1:9/none")

    wait_until(lambda: trial.last.get("state") == "backoff", within_s=30, what="a pause")
    assert trial.last["why"]
    assert trial.end() == End("stopped")


def test_a_file_comes_to_its_end(trial, clips) -> None:
    trial.start(f"file:{next(iter(sorted(Path(clips).glob('*.mp4'))))}", analyzer="ours:Ours")

    end = trial.wait(100)

    assert isinstance(end, End)
    assert end.how == "over"
    assert trial.book.results


def test_a_file_without_video_has_failed(trial, tmp_path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"no video at all")
    trial.start(f"file:{tmp_path}/x.mp4")

    end = trial.wait()

    assert isinstance(end, End)
    assert end.how == "failed"


def test_what_a_node_may_not_open_is_refused(trial) -> None:
    trial.allowed = ("rtsp://192.168.1.*",)
    trial.start("test:ball")

    end = trial.wait()

    assert isinstance(end, End)
    assert (end.how, "test:ball" in end.why) == ("refused", True)


def test_who_is_no_seat_says_so(trial) -> None:
    trial.go()

    assert "jetq stream" in str(trial.wait())


def test_a_seat_that_lost_its_stream_ends(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours")
    pid = running(trial, wait_until)

    trial.book.charged = None

    assert trial.wait() == End("stopped")
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_seat_that_nobody_hears_of_is_refused(trial, wait_until) -> None:
    trial.start(analyzer="ours:Ours")
    running(trial, wait_until)

    trial.book.garbles = True

    end = trial.wait()
    assert isinstance(end, End)
    assert end.how == "refused"


def test_what_it_has_started_is_killed_where_it_does_not_end(trial, wait_until, monkeypatch) -> None:
    monkeypatch.setattr(watch, "GRACE_S", 0.5)
    trial.start(analyzer="ours:Ours", stall_s=600.0)
    pid = running(trial, wait_until)
    os.kill(pid, signal.SIGSTOP)

    assert trial.end() == End("stopped")

    assert not os.path.exists(f"/proc/{pid}")
