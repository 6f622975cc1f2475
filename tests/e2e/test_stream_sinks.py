"""What a stream leaves, on real nodes: over a kill of its runner and a move, all of it is there and can be read."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
JETQ = [sys.executable, str(ROOT / "jetq" / "_run.py")]
PASSWORD = "hunter2-of-the-hook"
pytestmark = pytest.mark.xdist_group("up")


class Cluster:
    """Two nodes of `jetq up`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "JETQ_DIR": str(folder)}

    def jetq(self, *words: str) -> str:
        found = subprocess.run([*JETQ, *words], env=self.env, capture_output=True, text=True, timeout=100)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    def show(self, job_id: str) -> dict:
        return json.loads(self.jetq("job", "show", job_id, "--json"))

    def runner(self) -> int:
        """The process of the stream: the child of the one that starts them."""
        pids = subprocess.run(["pgrep", "-f", "_spare"], capture_output=True, text=True).stdout.split()
        mine = [pid for pid in pids if str(self.folder).encode() in (Path("/proc") / pid / "environ").read_bytes()]
        [runner] = [pid for pid in mine if (Path("/proc") / pid / "stat").read_text().split()[3] in mine]
        return int(runner)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "up")
    made.jetq("up", "-d", "--nodes", "2")
    yield made
    made.jetq("down")


@pytest.fixture
def hook() -> Iterator[tuple[str, queue.Queue]]:
    bodies: queue.Queue = queue.Queue()

    class Hook(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            for row in json.loads(self.rfile.read(int(self.headers["Content-Length"]))):
                bodies.put(row)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://jo:{PASSWORD}@127.0.0.1:{server.server_address[1]}/x", bodies
    server.shutdown()
    server.server_close()


def frames(film: Path) -> int:
    with av.open(str(film)) as opened:
        return sum(1 for _ in opened.decode(video=0))


@pytest.mark.timeout(180)
def test_over_a_kill_and_a_move_all_results_are_there(
    cluster: Cluster, hook: tuple[str, queue.Queue], tmp_path: Path, wait_until: Callable[..., object]
):
    address, bodies = hook
    sinks = [word for sink in ("jsonl", "mp4", f"webhook:{address}") for word in ("--sink", sink)]
    cluster.jetq("stream", "test:ball", "--id", "gate", "--fps", "10", *sinks)

    def kept() -> list[int]:
        return [sink["kept"] for sink in (cluster.show("gate")["telemetry"] or {}).get("sinks", ())]

    wait_until(lambda: kept() and min(kept()) > 15, 60, "each sink keeps results")
    [first] = cluster.show("gate")["nodes"]
    cluster.jetq("job", "preview", "gate", "--out", str(tmp_path / "gate.jpg"))
    os.kill(cluster.runner(), signal.SIGKILL)
    wait_until(lambda: cluster.show("gate")["telemetry"].get("reconnects", 0) >= 1 and kept() and min(kept()) > 15, 60)
    cluster.jetq("node", "drain", first)
    wait_until(lambda: first not in cluster.show("gate")["nodes"] and kept() and min(kept()) > 15, 60, "it has moved")
    cluster.jetq("job", "cancel", "gate")
    wait_until(lambda: cluster.show("gate")["state"] == "CANCELLED", 30)
    got = cluster.jetq("job", "files", "gate", "--get", str(tmp_path / "out")).splitlines()

    picture = cv2.imread(str(tmp_path / "gate.jpg"))
    green = (np.abs(picture.astype(int) - (0, 255, 0)).sum(axis=2) < 120).sum()
    lines = [json.loads(line) for path in got if path.endswith("jsonl") for line in Path(path).read_text().splitlines()]
    films = [Path(path) for path in got if path.endswith("mp4")]
    posted = {(row["token"], row["n"]) for row in list(bodies.queue)}
    assert picture.shape == (360, 640, 3)
    assert green > 100
    assert {Path(path).parent.name for path in got} == {first, "out"}
    assert len({row["token"] for row in lines}) == 2
    assert len(lines) > 45
    assert len(films) >= 3
    assert min(frames(film) for film in films) > 0
    assert sum(frames(film) for film in films) > 40
    assert len(posted) > 45
    secrets = [path for path in cluster.folder.rglob("*") if path.is_file() and _holds(path)]
    assert [path.name for path in secrets if "log" in path.name or "jobs" in path.parts] == []


def _holds(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return PASSWORD.encode() in path.read_bytes()
    return False
