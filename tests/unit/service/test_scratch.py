"""Folders for temporary files: short, private, and gone with their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jetq.service import scratch
from jetq.service.scratch import Scratch

OWNER = "from jetq.service.scratch import Scratch; s = Scratch(); print(s.path, flush=True); input()"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Give the folder above; all of this test and its owners are below it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(scratch, "_SHORT", 1000)
    return tmp_path


@pytest.fixture
def owner(folder):
    """Give a process that has made a folder, and the folder."""
    code = OWNER.replace("; s =", f"; import jetq.service.scratch as m; m._SHORT = {1000}; s =")
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def aged(path: Path) -> None:
    os.utime(path, (1, 1))


def test_it_is_private_and_goes_with_all_in_it(folder):
    one = Scratch()
    path = Path(one.path)
    (path / "in" / "it").mkdir(parents=True)

    assert (path.parent, path.stat().st_mode & 0o777) == (folder, 0o700)

    one.remove()
    one.remove()
    assert list(folder.iterdir()) == []


def test_a_long_path_is_not_used_where_there_is_a_shorter_one(monkeypatch):
    monkeypatch.setattr(scratch, "_SHORT", 24)

    one = Scratch()

    assert len(one.path) <= 40
    one.remove()


def test_what_an_owner_that_was_killed_has_left_goes_when_the_next_is_made(owner):
    process, path = owner
    (path / "socket").touch()
    aged(path)
    process.send_signal(signal.SIGKILL)
    process.wait(10)

    one = Scratch()

    assert not path.exists()
    one.remove()


def test_what_an_owner_still_holds_stays_however_old(owner):
    _, path = owner
    aged(path)

    one = Scratch()

    assert path.exists()
    one.remove()


def test_nothing_that_is_young_or_not_its_own_kind_is_removed(folder):
    young, link, other = folder / "jetq-r-young", folder / "jetq-r-link", folder / "other"
    for path in (young, other):
        path.mkdir()
    link.symlink_to(other)
    (folder / "jetq-r-file").touch()
    for path in (other, folder / "jetq-r-file"):
        aged(path)

    Scratch().remove()

    assert {path.name for path in folder.iterdir()} == {"jetq-r-young", "jetq-r-link", "other", "jetq-r-file"}
