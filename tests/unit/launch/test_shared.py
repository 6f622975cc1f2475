"""Storage that is shared, storage that is not, and storage that hangs."""

from __future__ import annotations

import os
import threading
import time

import pytest

from jetq.launch import shared


def test_what_the_head_leaves_all_others_find(tmp_path):
    folder = shared.checkpoints(tmp_path, "g7")

    assert shared.leave(folder, "t1", 5)
    assert shared.finds(folder, "t1", 5)
    assert not shared.finds(folder, "t2", 0.3)
    shared.clear(folder, "t1", 5)
    assert list(folder.iterdir()) == []
    shared.clear(folder, "t1", 5)


def test_a_folder_of_the_same_path_on_another_disk_is_not_shared(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    assert shared.leave(shared.checkpoints(tmp_path / "a", "g7"), "t1", 5)
    assert not shared.finds(shared.checkpoints(tmp_path / "b", "g7"), "t1", 0.3)


def test_what_appears_late_is_found(tmp_path):
    late = threading.Timer(0.3, shared.leave, (tmp_path / "g7", "t1", 5))
    late.start()

    assert shared.finds(tmp_path / "g7", "t1", 20)
    late.join()


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")

    assert not shared.leave(tmp_path / "file" / "g7", "t1", 5)
    assert not shared.finds(tmp_path / "file" / "g7", "t1", 0.3)
    shared.clear(tmp_path / "file" / "g7", "t1", 5)


@pytest.mark.parametrize("ask", [shared.finds, shared.leave])
def test_storage_that_hangs_is_given_up_in_time(tmp_path, ask):
    pipe = tmp_path / ".jetq-shared-t1"
    os.mkfifo(pipe)  # opening it waits for the other side, as a server that is gone would make it wait
    began_s = time.monotonic()

    answer = ask(tmp_path, "t1", 0.5)
    took_s = time.monotonic() - began_s
    os.close(os.open(pipe, os.O_RDWR))  # lets it go

    assert not answer
    assert took_s < 5
