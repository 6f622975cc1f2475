"""Applications on real nodes: one enqueues a training job and follows it, one keeps cameras as a list says."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq.video.cameras import read_cameras

ROOT = Path(__file__).resolve().parents[2]
PRODUCERS = ROOT / "examples" / "producer"
pytestmark = pytest.mark.xdist_group("up")


class Cluster:
    """Two nodes of one `jetq up` that share a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.shared.mkdir()
        own = {"JETQ_DIR": str(folder / "up"), "JETQ_SHARED": str(self.shared), "JETQ_GRACE_S": "5"}
        self.environ = {**os.environ, **own, "PYTHONPATH": str(ROOT)}

    def jetq(self, *words: str) -> str:
        argv = [sys.executable, str(ROOT / "jetq" / "_run.py"), *words]
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def producer(self, *words: str, script: str = "train.py") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(PRODUCERS / script), *words],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kill_agent(self, node: str) -> None:
        """Kill the agent of a node, which takes its work with it."""
        [pid] = [
            pid
            for pid, words, environ in self.processes()
            if "worker" in words
            and f"JETQ_NODE={node}" in environ
            and any(w.startswith("JETQ_GUARDED=") for w in environ)
        ]
        os.kill(pid, signal.SIGKILL)

    def processes(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """Yield pid, command line and environment of whatever was started with this folder."""
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words, environ = ((place / name).read_text().split("\0") for name in ("cmdline", "environ"))
                if f"JETQ_DIR={self.environ['JETQ_DIR']}" in environ and int(place.name) != os.getpid():
                    yield int(place.name), words, environ


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    made.jetq("up", "-d", "--nodes", "2", "--slots", "2,2")
    yield made
    made.jetq("down")
    left = list(made.processes())
    for pid, _, _ in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left


def test_a_producer_follows_its_training_job_to_the_end(cluster):
    text = cluster.producer("--nodes", "2", "--epochs", "2").communicate(timeout=150)[0]
    lines = text.splitlines()

    assert re.fullmatch(r"job [0-9a-f-]{36}", lines[0]), text
    assert [re.sub(r"[\d.]+ right.*", "", line) for line in lines if "] epoch" in line] == [
        "[0] epoch 1/2 loss ",
        "[0] epoch 2/2 loss ",
    ]
    assert any(re.fullmatch(r"-- RUNNING, step \d+ of 80, loss [\d.]+", line) for line in lines), text
    assert re.fullmatch(r"SUCCEEDED on node-\d, node-\d, exit code 0", lines[-1])


def test_a_training_job_that_loses_a_node_resumes_from_its_checkpoint(cluster, wait_until: Callable[..., object]):
    running = cluster.producer("--nodes", "2", "--epochs", "8")
    text: list[str] = []
    reader = threading.Thread(target=lambda: text.extend(running.stdout or ()))
    reader.start()

    wait_until(lambda: any("] epoch 2/8" in line for line in text), 90, "the second epoch")
    cluster.kill_agent("node-2")
    code = running.wait(150)
    reader.join(10)

    assert code == 0, "".join(text)
    [resumed] = [line for line in text if "attempt 2 resumes after epoch" in line]
    done = int(resumed.split()[-1])
    assert 2 <= done < 8
    after = [line.split()[2] for line in text[text.index(resumed) :] if "] epoch" in line]
    assert after == [f"{epoch}/8" for epoch in range(done + 1, 9)]
    [row] = json.loads(cluster.jetq("job", "list", "--json"))
    assert (row["state"], row["attempts"], row["exit_code"]) == ("SUCCEEDED", 1, 0), row


def test_a_job_that_never_fits_is_refused_in_a_line(cluster):
    running = cluster.producer("--nodes", "5")

    said = running.communicate(timeout=60)[0]
    assert running.returncode == 2
    assert said.count("\n") == 1
    assert "5 nodes" in said


CAMERAS = """
[[stream]]
id = "gate"
uri = "rtsp://admin:hunter22@127.0.0.1:1/1"

[[stream]]
id = "yard"
uri = "test:ball"
"""


def test_a_producer_adds_changes_and_removes_cameras_as_its_list_does(cluster, wait_until: Callable[..., object]):
    path = cluster.folder / "cameras.toml"
    path.write_text(CAMERAS)
    running = cluster.producer(str(path), "--cancel", script="cameras.py")
    text: list[str] = []
    reader = threading.Thread(target=lambda: text.extend(running.stdout or ()))
    reader.start()

    def says(pattern: str) -> None:
        wait_until(lambda: any(re.match(pattern, line) for line in text), 60, pattern)

    says(r"-- gate: placed")
    says(r"\d\d:\d\d:\d\d yard score \d\.\d{3}, \d+ box")
    path.write_text('[[stream]]\nid = "yard"\nuri = "test:cube"\n')
    says(r"-- the cameras are left as they were: .*cameras.toml:\d+: test: draws ball")
    path.write_text(
        '[[stream]]\nid = "yard"\nuri = "test:ball"\nfps = 5\n\n[[stream]]\nid = "hall"\nuri = "test:noise"\n'
    )
    says(r"-- yard: changed: fps none -> 5.0")
    says(r"-- gate: cancelled")
    says(r"\d\d:\d\d:\d\d hall score")
    running.send_signal(signal.SIGINT)
    code = running.wait(60)
    reader.join(10)

    assert code == 0, "".join(text)
    assert "hunter22" not in "".join(text)
    rows = {row["id"]: row for row in json.loads(cluster.jetq("job", "list", "--json"))}
    assert rows["gate"]["reason"] == "it is not in the list any more"
    wait_until(
        lambda: all(row["state"] == "CANCELLED" for row in json.loads(cluster.jetq("job", "list", "--json"))), 30
    )


def test_a_list_that_is_wrong_from_the_beginning_is_a_line(cluster):
    said = cluster.producer("/no/such.toml", script="cameras.py").communicate(timeout=60)[0]

    assert said.count("\n") == 1
    assert "/no/such.toml" in said


def test_the_list_of_sixteen_cameras_is_in_order():
    listed = read_cameras(PRODUCERS / "cameras.toml")

    assert len(listed) == 16
    assert {one.spec.fps for one in listed} == {10.0}
