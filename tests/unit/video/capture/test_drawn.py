"""Drawn cameras: their pictures, and their pace."""

from __future__ import annotations

import time

import numpy as np
import pytest

from jetq.model.camera_uri import PATTERNS
from jetq.model.stream import StreamSpec
from jetq.video.analyzers.motion import Motion
from jetq.video.capture.chain import open_camera
from jetq.video.capture.drawn import pattern


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("size", [(16, 16), (640, 360), (17, 8192)])
def test_frame_n_always_looks_the_same(name, size):
    first, second = pattern(name, *size, 15.0), pattern(name, *size, 15.0)

    for number in (0, 1, 100_000_000):
        assert first(number).shape == (size[1], size[0], 3)
        assert first(number).dtype == np.uint8
        assert np.array_equal(first(number), second(number))


@pytest.mark.parametrize("name", PATTERNS)
def test_whoever_draws_on_a_picture_spoils_no_other(name):
    draw = pattern(name, 64, 48, 15.0)
    before = draw(3).copy()

    draw(3)[:] = 0

    assert np.array_equal(draw(3), before)


@pytest.mark.parametrize(("name", "moves"), [("ball", True), ("bars", False), ("still", False)])
@pytest.mark.parametrize("fps", [5.0, 15.0])
def test_motion_sees_the_ball_and_nothing_in_what_stands_still(name, moves, fps):
    draw = pattern(name, 640, 360, fps)
    motion = Motion()
    motion.start()
    scores = [motion.frame(draw(number), number / fps).score for number in range(120)][20:]

    assert all((score > 0.005) is moves for score in scores)


def test_the_address_says_its_size_and_its_pace():
    capture = open_camera(StreamSpec("test:bars?size=320x240&fps=50"), None)
    began = time.monotonic()
    grabbed = [capture.grab(wanted=lambda: True) for _ in range(26)]
    took_s = time.monotonic() - began

    assert (capture.described.width, capture.described.height, capture.described.fps) == (320, 240, 50.0)
    assert (capture.described.backend, capture.described.codec, capture.described.hardware) == ("drawn", "", False)
    assert took_s >= 0.5 - 0.001
    assert all(one.picture().shape == (240, 320, 3) for one in grabbed)
    assert [one.at_s for one in grabbed] == sorted(one.at_s for one in grabbed)


def test_who_comes_late_has_missed_frames_and_is_given_the_present_one(wait_until):
    capture = open_camera(StreamSpec("test:ball?fps=20"), None)
    capture.grab(wanted=lambda: False)
    late = time.monotonic() + 0.5
    wait_until(lambda: time.monotonic() > late, 5)

    shown = capture.grab(wanted=lambda: True).picture()

    assert any(np.array_equal(shown, pattern("ball", 640, 360, 20.0)(number)) for number in range(10, 14))


def test_what_nobody_wants_is_not_drawn():
    capture = open_camera(StreamSpec("test:noise?fps=200"), None)

    assert capture.grab(wanted=lambda: False).picture is None
    assert capture.grab(wanted=lambda: True).picture is not None
