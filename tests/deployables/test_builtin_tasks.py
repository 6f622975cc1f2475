"""The built-in tasks: a name, options and one call."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import tasks.demo
import tasks.video
from jetq.video.chunks import whole
from jetq.video.source import probe

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path for path in (ROOT / "tasks").glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_task_has_a_name_of_its_own(path: Path):
    body = ast.parse(path.read_text()).body
    tasks = [node for node in body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    calls = {task.name: [call for call in task.decorator_list if isinstance(call, ast.Call)] for task in tasks}
    named = {name: [keyword.arg for call in own for keyword in call.keywords] for name, own in calls.items()}

    assert named
    assert all("name" in keywords for keywords in named.values()), named


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_names_start_with_the_module(path: Path):
    names = [
        keyword.value.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "name" and isinstance(node.value, ast.Constant)
        for keyword in [node]
    ]

    assert all(str(name).startswith(f"{path.stem}.") for name in names), names


def test_video_analyze_gives_what_json_can_carry(clips: Path):
    path = clips / "carphone_distorted.mp4"
    place = {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}

    found = tasks.video.analyze(place, whole(probe(path).index).as_json(), "snapshot", {"every": 30})

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [row[0] for row in found["frames"]] == [0, 30, 60, 90]


def test_a_chunk_of_a_whole_minute_stays_far_below_the_size_limit(clips: Path):
    path = clips / "bikes.mp4"
    place = {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}

    found = tasks.video.analyze(place, whole(probe(path).index).as_json())

    assert len(json.dumps(found)) * 6 < 1024 * 1024


def test_demo_tasks_do_what_they_say():
    assert tasks.demo.add(2, 3) == 5
    assert tasks.demo.nap(0) == 0
    with pytest.raises(RuntimeError, match="as asked"):
        tasks.demo.fail()
