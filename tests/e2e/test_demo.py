"""`make demo`: what a newcomer sees first."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("video")


def start(folder: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def left_behind(folder: Path) -> list[str]:
    """Return the command lines of processes that belong to a demo of this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if f"{folder}/jetq-demo".encode() in words:
            found.append(words[:200].replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.mark.timeout(300)
def test_the_demo_shows_work_on_three_nodes_and_leaves_nothing(clips: Path, tmp_path: Path):
    said = start(tmp_path).communicate(timeout=240)[0]

    chunks = re.search(r"(\d+) frames in (\d+) chunks took", said)
    assert chunks, said
    assert int(chunks[2]) >= 24
    assert re.search(r"^node-1 +\d+ .*\n.*node-2 +\d+ .*\n.*node-3 +\d+ ", said, re.MULTILINE), said
    sheet = re.search(r"contact sheet: (\S+\.png)", said)
    assert sheet and Path(sheet[1]).read_bytes().startswith(b"\x89PNG")
    assert said.rstrip().count("\n") and "Try next:" in said
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("after", ["$ jetq up", "$ jetq video"])
def test_ctrl_c_leaves_nothing(clips: Path, tmp_path: Path, wait_until: Callable[..., object], after: str):
    demo = start(tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith(after):
            break
    os.killpg(demo.pid, signal.SIGINT)
    said = demo.communicate(timeout=200)[0]

    assert demo.returncode == 130, said
    wait_until(lambda: not left_behind(tmp_path), 20, "everything has gone")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_a_command_is_being_started_comes_once_it_is_known(signum: signal.Signals):
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    assert spec and spec.loader
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    known = []

    with pytest.raises(KeyboardInterrupt), demo.held_back():
        signal.raise_signal(signum)
        known.append("child")

    assert known == ["child"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
