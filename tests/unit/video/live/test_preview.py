"""A running stream shows what it sees to those who look, at their pace, and costs nothing while nobody does."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import cv2
import numpy as np
import pytest

from jetq.service.jobfiles.peephole import Peephole, address_of
from jetq.video.live import preview as module
from jetq.video.live.preview import MOST_BYTES, MOST_WATCHERS, Preview


@pytest.fixture
def address() -> str:
    return f"jetq-preview-test-{uuid.uuid4().hex}"


@pytest.fixture
def preview(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preview]:
    monkeypatch.setattr(module, "PERIOD_S", 0.0)
    made = Preview(address)
    yield made
    made.close()


@pytest.fixture
def look(address: str) -> Iterator[Callable[[], Peephole]]:
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(Peephole(address)))


def picture(jpeg: bytes | None) -> np.ndarray:
    assert jpeg
    return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)


def test_who_looks_sees_the_newest_result_with_its_boxes(preview, look, seen):
    preview.offer(seen(1))
    hole = look()
    assert hole.newest() is None
    preview.offer(seen(2))
    preview.offer(seen(3, size=(1600, 900), boxes=((800, 450, 400, 300),)))

    shown = picture(hole.newest())
    assert shown.shape == (360, 640, 3)
    assert (shown[180:182, 330:470, 1].astype(int) - shown[180:182, 330:470, 2] > 60).mean() > 0.8
    assert hole.newest() is None


def test_nobody_looks_and_nothing_is_drawn(preview, address, monkeypatch):
    monkeypatch.setattr(module, "PERIOD_S", 0.2)

    class Unseen:
        @property
        def picture(self):
            raise AssertionError("drawn for nobody")

    began_s = time.process_time()
    for _ in range(10_000):
        preview.offer(Unseen())

    assert time.process_time() - began_s < 0.5


def test_pictures_come_no_more_often_than_told(preview, look, seen, monkeypatch):
    preview.offer(seen(1))
    hole = look()
    monkeypatch.setattr(module, "PERIOD_S", 60.0)
    preview.offer(seen(2))
    assert hole.newest()

    for number in range(3, 50):
        preview.offer(seen(number))

    assert hole.newest() is None


def test_a_slow_watcher_misses_some_and_holds_up_nobody(preview, look, seen):
    preview.offer(seen(1))
    slow, quick = look(), look()
    began_s = time.monotonic()
    count = 0
    for number in range(2, 102):
        preview.offer(seen(number, size=(640, 360)))
        count += bool(quick.newest())

    assert time.monotonic() - began_s < 5
    assert count == 100
    assert picture(slow.newest()).shape == (360, 640, 3)


def test_noise_fits_into_a_message_too(preview, look, seen):
    preview.offer(seen(1))
    hole = look()
    noise = np.random.default_rng(1).integers(0, 255, (1080, 1920, 3), np.uint8)
    preview.offer(type(seen(1))("gate", "t", 2, 1.8e9, seen(1).result, lambda: noise))

    assert 0 < len(hole.newest() or b"") <= MOST_BYTES


def test_who_has_hung_up_is_forgotten_and_too_many_are_turned_away(preview, look, seen):
    preview.offer(seen(1))
    for _ in range(MOST_WATCHERS):
        gone = look()
        preview.offer(seen(2))
        gone.close()
    holes = []
    for _ in range(MOST_WATCHERS + 1):
        holes.append(look())
        preview.offer(seen(4))

    assert [bool(hole.newest()) for hole in holes] == [True] * MOST_WATCHERS + [False]
    assert holes[-1].newest() == b""


def test_the_end_is_seen(preview, look, seen):
    preview.offer(seen(1))
    hole = look()
    preview.offer(seen(2))
    preview.close()

    assert hole.newest()
    assert hole.newest() == b""
    with pytest.raises(ConnectionRefusedError):
        look()


def test_the_next_runner_shows_itself_once_the_last_has_gone(preview, address, look, seen):
    preview.offer(seen(1))
    following = Preview(address)
    following.offer(seen(2))
    preview.close()
    following.offer(seen(3))
    hole = look()
    following.offer(seen(4))
    following.close()

    assert hole.newest()


def test_what_cannot_be_drawn_is_not_shown_and_the_next_is(preview, look, seen):
    preview.offer(seen(1))
    hole = look()
    preview.offer(seen(2, boxes=((1, 2, float("nan"), 4),)))
    assert hole.newest() is None
    preview.offer(seen(3))

    assert hole.newest()


def test_without_an_address_there_is_no_preview(seen):
    preview = Preview("")
    preview.offer(seen(1))
    preview.close()


STRANGER = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.setuid(65534)
if sys.argv[2] == "show":
    listener.bind("\\0" + sys.argv[1])
    listener.listen(1)
    print("there", flush=True)
    sys.stdin.read()
else:
    listener.connect("\\0" + sys.argv[1])
    print("there", flush=True)
    print(len(listener.recv(1 << 18)), flush=True)
"""


def stranger(address: str, what: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    other = subprocess.Popen([sys.executable, "-c", STRANGER, address, what], **pipes)
    assert other.stdout.readline() == "there\n"
    return other


def test_another_user_is_shown_nothing(preview, address, seen):
    preview.offer(seen(1))
    with stranger(address, "look") as other:
        preview.offer(seen(2))

        assert other.stdout.readline() == "0\n"
        other.stdin.close()


def test_what_another_user_shows_is_not_looked_at(address):
    with stranger(address, "show") as other:
        with pytest.raises(PermissionError):
            Peephole(address)
        other.stdin.close()


def test_nodes_of_one_network_do_not_meet(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    names = {address_of(tmp_path / name, "gate") for name in ("a", "b", "link")}
    long = address_of(tmp_path / "a", "x" * 5000)

    assert len(names) == 2
    assert address_of(tmp_path / "a", "yard") not in names
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{long}")
    assert os.path.realpath(tmp_path / "link") == str(tmp_path / "a")
