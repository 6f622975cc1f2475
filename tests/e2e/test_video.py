"""`jetq video` on real nodes: what one pass gives, over HTTP, and nothing half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq.video.chunks import whole
from jetq.video.outputs import as_line
from jetq.video.run import analyze_chunk
from jetq.video.source import probe
from tests import models

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("video"), pytest.mark.timeout(300)]
#: Two analyzers of a user: one never ends in time, one fails.
OWN = """
from time import sleep
from jetq.video.analyzers.base import Result

class Slow:
    def start(self): pass
    def frame(self, picture, t_s):
        sleep(0.2)
        return Result(0.0)
    def stop(self): pass

class Fails(Slow):
    def frame(self, picture, t_s):
        raise ValueError("the lens is covered")
"""


class Cluster:
    """A `jetq up` of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        (folder / "own").mkdir()
        (folder / "own" / "own_eyes.py").write_text(OWN)
        ours = {key: value for key, value in os.environ.items() if not key.startswith("JETQ_")}
        self.environ = {**ours, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'own'}", "JETQ_DIR": str(self.home)}

    def jetq(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jetq", *map(str, words)]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=240, check=False)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "jetq", *map(str, words)]
        return subprocess.Popen(command, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def jobs(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = json.loads(self.jetq("job", "list", "--json").stdout)
        return rows


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("video"))
    up = made.jetq("up", "-d", "--nodes", "2", "--slots", "2,1", "--no-web")
    assert up.returncode == 0, up.stderr
    yield made
    down = made.jetq("down", "--now")
    assert down.returncode == 0, down.stderr


def test_nodes_give_what_one_pass_gives(cluster: Cluster, clips: Path, tmp_path: Path):
    said = cluster.jetq("video", clips, "--analyzer", "snapshot", "--set", "every=4", "--chunk-s", 1, "--out", tmp_path)

    assert said.returncode == 0, said.stderr
    for path in sorted(clips.glob("*.mp4")):
        place = {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}
        rows = analyze_chunk(place, whole(probe(path).index).as_json(), "snapshot", {"every": 4})["frames"]
        lines = (tmp_path / f"{path.stem}.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [as_line(row) for row in rows]


def test_both_nodes_take_part_and_json_tells_how(cluster: Cluster, clips: Path, tmp_path: Path):
    said = cluster.jetq("video", clips, "--chunk-s", "1", "--repeat", "2", "--json", "--out", tmp_path)

    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    assert report["frames"] == 2 * 622
    assert {node["node"] for node in report["nodes"]} == {"node-1", "node-2"}
    assert all(node["fps"] > 0 for node in report["nodes"])
    assert Path(report["sheet"]).is_file()
    assert report["sent_bytes"] > 0


def test_a_model_travels_to_the_nodes(cluster: Cluster, clips: Path, tmp_path: Path):
    model = models.colours(tmp_path / "m.onnx")
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    words = ("--set", f"model={model}", "--set", f"labels={tmp_path / 'names.txt'}", "--set", "task=classify")
    said = cluster.jetq("video", clips / "bikes.mp4", "--analyzer", "onnx", *words, "--chunk-s", "1", "--out", tmp_path)

    assert said.returncode == 0, said.stderr
    rows = [json.loads(line) for line in (tmp_path / "bikes.jsonl").read_text().splitlines()]
    assert len(rows) == 250
    assert {row["labels"][0] for row in rows} <= {"red", "green", "blue"}
    kept = [path.read_bytes() for path in cluster.home.glob("**/models/*.onnx")]
    assert kept
    assert set(kept) == {model.read_bytes()}


def test_a_failing_analyzer_is_one_line_and_leaves_nothing(cluster: Cluster, clips: Path, tmp_path: Path):
    out = tmp_path / "out"
    said = cluster.jetq("video", clips / "bikes.mp4", "--analyzer", "own_eyes:Fails", "--chunk-s", "1", "--out", out)

    assert said.returncode == 1
    assert "the lens is covered" in said.stderr
    assert "Traceback" not in said.stderr
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said_of_it"), [(None, "no such file"), (b"", "empty"), (b"no video at all" * 99, "not a video")]
)
def test_bad_input_is_refused_before_anything_is_sent(
    cluster: Cluster, clips: Path, tmp_path: Path, content: bytes | None, said_of_it: str
):
    path = tmp_path / "bad.mp4"
    if content is not None:
        path.write_bytes(content)
    before = len(cluster.jobs())

    said = cluster.jetq("video", clips / "bikes.mp4", path, "--out", tmp_path / "out")

    assert said.returncode == 2
    assert said_of_it in said.stderr
    assert said.stderr.count("\n") == 1
    assert len(cluster.jobs()) == before
    assert not (tmp_path / "out").exists()


def test_a_label_that_nobody_carries_is_refused(cluster: Cluster, clips: Path, tmp_path: Path):
    said = cluster.jetq("video", clips / "bikes.mp4", "--label", "zone=moon", "--out", tmp_path)

    assert said.returncode == 2
    assert "zone=moon" in said.stderr


def test_ctrl_c_cancels_what_is_left(cluster: Cluster, clips: Path, tmp_path: Path, wait_until: Callable[..., object]):
    before = {row["id"] for row in cluster.jobs()}
    words = ("video", clips / "bikes.mp4", "--analyzer", "own_eyes:Slow", "--chunk-s", "1", "--out", tmp_path)
    running = cluster.start(*words)

    def fresh() -> list[dict[str, object]]:
        return [row for row in cluster.jobs() if row["id"] not in before]

    wait_until(lambda: any(row["state"] == "RUNNING" for row in fresh()), 60, "a chunk runs")
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]

    assert running.returncode == 130, said
    wait_until(lambda: all(row["state"] == "CANCELLED" for row in fresh()), 60, "all chunks are cancelled")
    assert list(tmp_path.iterdir()) == []
