"""Write an example folder with two tasks and their test."""

from __future__ import annotations

from pathlib import Path

import click

from jetq.cli.format import print_json, say
from jetq.cli.options import json_option
from jetq.errors import UsageError

_TASK = '''"""Example tasks: plain Celery, no jetq import."""

import os
from pathlib import Path

from celery import shared_task


@shared_task(name="yard.count")
def count(frames: int, camera: int = 1) -> dict[str, int]:
    """Pretend to count what passes ``camera`` in so many frames."""
    return {"camera": camera, "seen": sum(1 for frame in range(frames) if frame % 7 == camera % 7)}


@shared_task(name="yard.report")
def report(day: str) -> int:
    """Leave a file (`jetq job files ID`) and print what is done (`jetq job logs ID`)."""
    folder = Path(os.environ["JETQ_FILES_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{day} camera {camera}: {count(700, camera)['seen']} seen" for camera in (1, 2, 3)]
    for line in lines:
        print(line)
    (folder / f"{day}.txt").write_text("\\n".join(lines) + "\\n")
    return len(lines)
'''
_TEST = '''"""A task is a function: test it as one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tasks"))

from yard import count, report


def test_every_seventh_frame_is_seen():
    assert count(70, camera=3) == {"camera": 3, "seen": 10}


def test_a_report_has_a_line_for_each_camera(tmp_path, monkeypatch):
    monkeypatch.setenv("JETQ_FILES_DIR", str(tmp_path / "files"))

    assert report("monday") == 3
    assert "monday camera 2: 100 seen" in (tmp_path / "files" / "monday.txt").read_text()
'''
_README = """# A folder for jetq

`tasks/` holds the tasks; each module of it is loaded by every node that is started with `--app-dir`.

    jetq up -d --nodes 2 --app-dir .
    jetq submit yard.count 70 camera=3 --wait
    jetq submit yard.report monday --id monday --wait
    jetq job logs monday
    jetq job files monday --get out
    jetq node list
    jetq down

The test needs no cluster, only pytest where jetq is installed: `pip install pytest && python -m pytest`.

From Python: `from jetq import JetQ; print(JetQ().submit("yard.count", 70, camera=3).result())`.
Or with Celery alone: `celery_app.send_task("yard.count", [70])` after `jetq.install(celery_app)`.
"""
#: Every file of the example, by its path in the folder.
FILES = {"tasks/yard.py": _TASK, "test_yard.py": _TEST, "README.md": _README}


@click.command(
    epilog="""\b
Examples:
  jetq init yard
  cd yard && jetq up -d --app-dir ."""
)
@click.argument("folder", metavar="DIR", type=Path)
@json_option
def command(*, folder: Path, as_json: bool) -> None:
    """Write an example into DIR, which must be new or empty: two tasks, their test and a README."""
    write_example(folder)
    if as_json:
        print_json({"dir": str(folder), "files": sorted(FILES)})
        return
    for name in sorted(FILES):
        print(folder / name)
    say(f"next: cd {folder} && jetq up -d --app-dir . && jetq submit yard.count 70 --wait")


def write_example(folder: Path) -> None:
    """Write the example.

    Raises:
        UsageError: the folder holds something already, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is there already and not empty; name a new folder")
        for name, text in FILES.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    except OSError as exc:
        raise UsageError(f"cannot write the example into {folder}: {exc.strerror}") from exc
