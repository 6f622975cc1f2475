"""Runners of streams are forked from a warm spare, and whatever dies, or hangs, nothing of them is left."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetq import process, procfs
from jetq.errors import JetqError
from jetq.model.stream import StreamSpec
from jetq.service import runners as module
from jetq.service.runners import Runner, Runners

ROOT = Path(__file__).resolve().parents[3]
#: An analyzer that starts a program, and hangs where it is asked to.
ANALYZER = """
import subprocess, threading

class Parent:
    def __init__(self, hangs=False):
        self.hangs = hangs

    def start(self):
        print("child", subprocess.Popen(["sleep", "1000"]).pid, flush=True)

    def frame(self, picture, at_s):
        if self.hangs:
            threading.Event().wait()

    def stop(self):
        pass
"""


class Trial:
    """Runners, and what they have written and said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runners = Runners()
        self.stop = threading.Event()
        self.fds: dict[int, int] = {}  # pid -> the read end of what it writes

    def start(self, uri: str = "test:ball", **fields: Any) -> Runner:
        told = {
            "stream": "x",
            "token": "0-a",
            "secrets": {},
            "files": str(self.folder),
            "files_max_bytes": 1 << 20,
            "fps": None,
            "preview": "",
            "spec": StreamSpec(uri, **fields).as_json(),
        }
        read_fd, write_fd = os.pipe()
        try:
            runner = self.runners.start(told, write_fd, self.stop)
        except JetqError:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        assert runner.pid is not None
        self.fds[runner.pid] = read_fd
        return runner

    def spare(self) -> int:
        """The process that runners are forked from."""
        return self.runners._child.pid

    def spare_of(self, *runners: Runner) -> str:
        """The numbers of the spare and of its runners."""
        return " ".join(str(pid) for pid in (self.spare(), *(runner.pid for runner in runners)))

    def words(self, runner: Runner, within_s: float = 20.0) -> dict[str, Any]:
        """What a runner says first: that its camera is open."""
        data = b""
        while b"\n" not in data:
            assert select.select([runner.channel], [], [], within_s)[0], "it says nothing"
            got = runner.channel.recv(1 << 20)
            assert got, "it has ended"
            data += got
        return json.loads(data.partition(b"\n")[0])

    def child(self, runner: Runner) -> int:
        """The program that its analyzer has started."""
        data = b""
        while b"child " not in data or not data.endswith(b"\n"):
            assert select.select([self.fds[runner.pid]], [], [], 20)[0]
            data += os.read(self.fds[runner.pid], 65536)
        return int(data.partition(b"child ")[2].split()[0])

    def end(self) -> None:
        for fd in self.fds.values():
            os.close(fd)
        self.runners.close()


@pytest.fixture
def trial(tmp_path: Path, monkeypatch) -> Iterator[Trial]:
    (tmp_path / "parents.py").write_text(ANALYZER)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    made = Trial(tmp_path)
    yield made
    made.end()


def gone(pid: int) -> bool:
    """Whether a process runs no more; one that nobody has waited for yet does not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def open_fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_runner_opens_its_camera_and_ends_where_it_is_asked_to(trial) -> None:
    runner = trial.start()

    assert trial.words(runner)["opened"]["backend"] == "drawn"
    trial.runners.signal(runner, signal.SIGTERM)
    assert runner.gone.wait(5)
    assert runner.code == 0
    assert gone(runner.pid)


def test_the_spare_has_no_threads_and_a_runner_no_more_than_its_own(trial) -> None:
    runner = trial.start()
    trial.words(runner)

    assert len(os.listdir(f"/proc/{trial.spare()}/task")) == 1
    assert os.getsid(runner.pid) == runner.pid
    assert procfs.parent(runner.pid) == trial.spare()


def test_a_runner_that_was_killed_is_told_of_with_its_signal(trial) -> None:
    runner = trial.start()
    os.kill(runner.pid, signal.SIGKILL)

    assert runner.gone.wait(5)
    assert runner.code == -signal.SIGKILL


def test_what_a_runner_has_started_dies_with_it(trial, wait_until) -> None:
    runner = trial.start("test:ball", analyzer="parents:Parent", options={"hangs": True})
    child = trial.child(runner)

    os.kill(runner.pid, signal.SIGKILL)
    assert runner.gone.wait(5)

    wait_until(lambda: gone(child), within_s=5, what="the end of its child")


def test_runners_die_with_a_spare_that_is_killed_and_the_next_ones_start(trial, wait_until) -> None:
    first = trial.start("test:ball", analyzer="parents:Parent")
    child, spare = trial.child(first), trial.spare()

    os.kill(spare, signal.SIGKILL)

    assert first.gone.wait(5)
    assert first.code is not None and first.code < 0
    wait_until(lambda: gone(first.pid) and gone(child), within_s=5, what="the end of all that it had forked")
    second = trial.start()
    assert trial.words(second)["opened"]
    assert trial.spare() != spare


def test_a_spare_that_hangs_is_replaced_when_a_runner_is_to_start(trial, monkeypatch, wait_until) -> None:
    monkeypatch.setattr(module, "START_S", 1.0)
    monkeypatch.setattr(module, "UP_S", 60.0)
    trial.runners.warm_up()
    wait_until(trial.runners._up.is_set, within_s=30, what="the spare")
    spare = trial.spare()
    os.kill(spare, signal.SIGSTOP)

    with pytest.raises(JetqError, match="hangs"):
        trial.start()

    wait_until(lambda: gone(spare), within_s=5, what="its end")


def test_a_spare_that_hangs_takes_its_runners_with_it_when_it_is_replaced(trial, wait_until) -> None:
    runner = trial.start("test:ball", analyzer="parents:Parent")
    child, spare = trial.child(runner), trial.spare()
    os.kill(spare, signal.SIGSTOP)
    began_s = time.monotonic()
    for _ in range(2000):
        trial.runners.signal(runner, signal.SIGKILL)
    assert time.monotonic() - began_s < 2.0, "nobody waits for it"
    assert not runner.gone.is_set()

    trial.runners.replace("does not kill a runner")

    assert runner.gone.wait(5)
    wait_until(lambda: gone(runner.pid) and gone(child) and gone(spare), within_s=5, what="the end of all")


def test_a_spare_that_does_not_come_up_is_replaced(trial, monkeypatch, wait_until) -> None:
    monkeypatch.setattr(module, "UP_S", 0.2)  # as if all libraries lay on a disk that hangs
    trial.runners.warm_up()
    wait_until(lambda: trial.runners._child, what="the first one")
    first = trial.spare()

    wait_until(lambda: gone(first) and trial.spare() != first, what="the next one")


def test_who_shall_end_does_not_wait_for_a_spare(trial, monkeypatch) -> None:
    monkeypatch.setattr(process, "self_argv", lambda *_: ["sleep", "1000"])
    threading.Timer(0.3, trial.stop.set).start()
    began_s = time.monotonic()

    with pytest.raises(JetqError):
        trial.start()

    assert time.monotonic() - began_s < 5.0


def test_twenty_that_start_at_once_all_start_and_leave_no_open_files(trial, wait_until) -> None:
    trial.words(trial.start())
    ours, spares = open_fds(os.getpid()), open_fds(trial.spare())
    started: list[Runner] = []
    threads = [threading.Thread(target=lambda: started.append(trial.start("test:still"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({runner.pid for runner in started}) == 20
    for runner in started:
        assert trial.words(runner, 60)["opened"]

    for runner in started:
        trial.runners.signal(runner, signal.SIGTERM)
    for runner in started:
        assert runner.gone.wait(20)
        runner.channel.close()
        os.close(trial.fds.pop(runner.pid))

    assert (open_fds(os.getpid()), open_fds(trial.spare())) == (ours, spares)


def test_spare_and_runners_die_with_their_lane(tmp_path: Path, wait_until) -> None:
    # What a runner has started is an orphan then, and its node's guard kills those.
    lane = f"""
import os, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.unit.service.test_runners import Trial
trial = Trial(Path({str(tmp_path)!r}))
print(trial.spare_of(trial.start(), trial.start()), flush=True)
threading.Event().wait()
"""
    with subprocess.Popen([sys.executable, "-c", lane], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pids = [int(word) for word in started.stdout.readline().split()]
        assert len(pids) == 3
        assert not any(gone(pid) for pid in pids)

        started.kill()

    wait_until(lambda: all(gone(pid) for pid in pids), within_s=5, what="the end of all")
