"""What people see of streams on real nodes, over the loss of one; and that nobody sees a password."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import JetQ

ROOT = Path(__file__).resolve().parents[2]
JETQ = [sys.executable, str(ROOT / "jetq" / "_run.py")]
PASSWORD = "hunter2-of-the-gate"
CAMERAS = f"""
[defaults]
fps = 10
sinks = ["jsonl"]

[[stream]]
id = "yard"
uri = "test:ball"

[[stream]]
id = "gate"
uri = "rtsp://admin:{PASSWORD}@127.0.0.1:1/stream1"
"""
pytestmark = pytest.mark.xdist_group("up")


class Cluster:
    """Two nodes of `jetq up`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "JETQ_DIR": str(folder), "PYTHONPATH": str(ROOT)}

    def jetq(self, *words: str) -> str:
        done = subprocess.run([*JETQ, *words], env=self.env, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def row(self, stream: str) -> dict:
        return json.loads(self.jetq("job", "show", stream, "--json").splitlines()[0])

    def processes(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield pid, command line and environment of whatever was started with this folder."""
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                argv, environ = ((place / name).read_bytes() for name in ("cmdline", "environ"))
                if f"JETQ_DIR={self.folder}".encode() in environ.split(b"\0") and int(place.name) != os.getpid():
                    yield int(place.name), argv, environ

    def kill_agent(self, node: str) -> None:
        [pid] = [
            pid
            for pid, argv, environ in self.processes()
            if argv.split(b"\0")[-3:] == [b"--name", node.encode(), b""] and b"\0worker\0" in argv
            if b"\0JETQ_GUARDED=" in environ
        ]
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give two nodes that keep a camera that sends and a dark one. The last test of this file ends these."""
    folder = tmp_path_factory.mktemp("cluster")
    made = Cluster(folder / "up")
    made.jetq("up", "-d", "--nodes", "2", "--slots", "4")
    (folder / "cameras.toml").write_text(CAMERAS)
    made.jetq("stream", "--from", str(folder / "cameras.toml"))
    yield made
    made.jetq("down", "--now")


def test_nobody_sees_the_password_of_a_camera(cluster, wait_until: Callable[..., object]):
    wait_until(lambda: (cluster.row("gate")["telemetry"] or {}).get("why"), 30, "why the gate is dark")
    shown = "".join(
        cluster.jetq(*words)
        for words in (
            ("job", "list", "--json"),
            ("job", "show", "gate"),
            ("job", "logs", "gate"),
            ("node", "list", "--json"),
            ("route", "--stream", "gate", "--explain"),
        )
    )
    processes = list(cluster.processes())
    client = JetQ(dir=cluster.folder)._store.client
    read = {
        b"hash": client.hgetall,
        b"string": client.get,
        b"set": client.smembers,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"stream": client.xrange,
    }
    kept = {key: repr(read[client.type(key)](key)) for key in client.keys("*") if client.exists(key)}
    written = {path: path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file()}

    assert "rtsp://***@127.0.0.1:1/stream1" in shown
    assert PASSWORD not in shown
    assert len(processes) > 6
    assert not [argv for _, argv, environ in processes if PASSWORD.encode() in argv + environ]
    assert [key.rpartition(b":")[0][-6:] for key, value in kept.items() if PASSWORD in value] == [b"secret"]
    in_files = {
        path.relative_to(cluster.folder).parts[0] for path, data in written.items() if PASSWORD.encode() in data
    }
    assert in_files <= {"data"}  # the broker's own


def test_a_stream_is_seen_while_it_runs_and_while_it_moves(cluster, wait_until: Callable[..., object]):
    following = subprocess.Popen(
        [*JETQ, "job", "logs", "-f", "yard", "--results"], env=cluster.env, stdout=subprocess.PIPE, text=True
    )
    seen: list[dict] = []
    assert following.stdout is not None
    reader = threading.Thread(target=lambda: seen.extend(map(json.loads, following.stdout)))
    reader.start()
    wait_until(lambda: len(seen) > 10, 30, "results")
    wait_until(lambda: "no connection" in cluster.jetq("job", "list"), 30, "why the gate is dark")
    listed = {line.split()[0]: line for line in cluster.jetq("job", "list", "--kind", "stream").splitlines()}
    [was] = cluster.row("yard")["nodes"]

    cluster.kill_agent(was)
    wait_until(lambda: len({one["token"] for one in seen}) == 2, 40, "results of another run")
    wait_until(lambda: (cluster.row("yard")["telemetry"] or {}).get("state") == "streaming", 20, "that it streams")
    row, shown = cluster.row("yard"), cluster.jetq("job", "show", "yard")
    cluster.jetq("job", "cancel", "yard", "gate")
    assert following.wait(30) == 0  # it ends with its stream
    reader.join(10)

    assert "streaming for" in listed["yard"]
    assert "fps" in listed["yard"]
    assert row["nodes"] != [was]
    assert row["telemetry"]["node"] == row["nodes"][0]
    assert [event["what"] for event in row["history"]] == ["start", "start"]
    assert row["history"][1]["why"].startswith(f"{was}: ")
    assert "fps looked at" in shown
    assert "sink jsonl" in shown
    places = [one["place"] for one in seen]
    assert len(set(places)) == len(places)
    assert "opened 640x360, by drawn" in cluster.jetq("job", "logs", "yard")
    assert len(cluster.jetq("job", "files", "yard").splitlines()) == 3  # of both nodes, under a head
