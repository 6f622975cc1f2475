"""Analyzers: by name, by module, and what the built-in ones see."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from jetq.errors import UsageError
from jetq.video.analyzers.load import Appetite, appetite, make
from jetq.video.analyzers.motion import MAX_BOXES, Motion
from jetq.video.analyzers.snapshot import Snapshot
from jetq.video.pictures import THUMB_MAX_BYTES, THUMB_PX, decode_jpeg, thumbnail


def scene(x: int | None = None, seed: int = 1) -> np.ndarray:
    """Return a still background, with a bright square at ``x``."""
    picture = np.random.default_rng(seed).integers(60, 90, (240, 320, 3), np.uint8)
    if x is not None:
        picture[100:140, x : x + 40] = 250
    return picture


def test_motion_boxes_what_moves_and_nothing_else():
    motion = Motion()
    motion.start()
    still = [motion.frame(scene(), n / 25) for n in range(30)]
    moving = [motion.frame(scene(20 + 4 * n), (30 + n) / 25) for n in range(20)]

    assert not any(result.boxes for result in still)
    assert all(result.boxes for result in moving)
    x, y, w, h = moving[-1].boxes[0]
    assert x <= 96 <= x + w
    assert y <= 120 <= y + h
    assert 0 < moving[-1].score < 0.2


def test_a_cut_is_no_motion():
    motion = Motion()
    motion.start()
    for n in range(30):
        motion.frame(scene(), n / 25)
    after = [motion.frame(255 - scene(seed=9), (30 + n) / 25) for n in range(10)]

    assert [result.score for result in after] == [0.0] * 10


def test_motion_returns_a_bounded_number_of_boxes():
    motion = Motion(min_area=0.0)
    motion.start()
    for n in range(20):
        motion.frame(scene(), n / 25)
    noisy = scene()
    for y in range(0, 240, 40):
        for x in range(0, 320, 40):
            noisy[y : y + 12, x : x + 12] = 255

    assert len(motion.frame(noisy, 1.0).boxes) == MAX_BOXES


def test_a_new_picture_size_is_a_new_scene():
    motion = Motion()
    motion.start()
    motion.frame(scene(), 0.0)

    assert motion.frame(np.zeros((100, 100, 3), np.uint8), 0.04).score == 0.0


def test_snapshot_tells_bright_from_dark_and_sharp_from_blurred():
    snapshot = Snapshot()
    sharp = np.random.default_rng(1).integers(0, 255, (240, 320, 3), np.uint8)
    blurred = np.asarray(cv2.GaussianBlur(sharp, (15, 15), 5), np.uint8)
    dark, bright = np.full_like(sharp, 10), np.full_like(sharp, 240)

    assert snapshot.frame(sharp, 0).score > snapshot.frame(blurred, 0).score
    assert snapshot.frame(dark, 0).values["brightness"] < 0.1 < 0.9 < snapshot.frame(bright, 0).values["brightness"]


def test_snapshot_keeps_a_small_picture():
    jpeg = Snapshot(longer_px=160).frame(scene(), 0.0).jpeg

    assert jpeg is not None
    assert decode_jpeg(jpeg).shape == (120, 160, 3)


def test_a_thumbnail_is_never_large():
    noise = np.random.default_rng(3).integers(0, 255, (1080, 1920, 3), np.uint8)

    jpeg = thumbnail(noise)

    assert len(jpeg) <= THUMB_MAX_BYTES
    assert max(decode_jpeg(jpeg).shape) == THUMB_PX


def test_an_own_analyzer_is_found_by_module_and_class(digest: str):
    assert appetite(make("own_eyes:Counter")) == Appetite(warmup=7, every=1)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("motoin", {}, "did you mean 'motion'"),
        (
            "no_such_module:Eye",
            {},
            "module 'no_such_module' cannot be found; its file has to lie in the folder of --app-",
        ),
        ("no_such.module:Eye", {}, "module 'no_such' cannot be found"),
        ("needy_eyes:Eye", {}, "'needy_eyes:Eye' needs the module 'no_such_library'; install it"),
        ("torn_eyes:Eye", {}, r"torn_eyes\.py, line 2: .*; mend that"),
        ("old_eyes:Eye", {}, "cannot be loaded: cannot import name 'Gone'"),
        ("own_eyes:", {}, "no analyzer is called"),
        ("own_eyes:NUMBER", {}, "is no class"),
        ("own_eyes:Ear", {}, r"own_eyes\.py\) has no 'Ear'"),
        ("own_eyes:Shapeless", {}, "needs the methods start"),
        ("motion", {"speed": 3}, "cannot be made with"),
        ("motion", {"history": 0}, "history must be 1 or more"),
        ("motion", {"warmup": -1}, "warmup must be 0 or more"),
        ("snapshot", {"every": 0}, "every must be 1 or more"),
    ],
)
def test_a_wrong_analyzer_is_refused(digest: str, name: str, options: dict[str, int], said: str):
    with pytest.raises(UsageError, match=said):
        appetite(make(name, options))
