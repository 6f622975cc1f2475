"""How often frames are looked at: as often as was asked for, and always the newest."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest

from jetq.video.capture.base import Grabbed
from jetq.video.live.pace import LATENCIES, WINDOW_S, Latency, Newest, Pace, Rate


def looks(pace: Pace, camera_fps: float, seconds: float, jitter: float = 0.0) -> list[float]:
    """The times of those frames of a camera that were looked at."""
    dice, taken = random.Random(1), []
    for number in range(int(seconds * camera_fps)):
        at_s = 1000.0 + number / camera_fps + dice.uniform(-jitter, jitter) / camera_fps
        if pace.is_due(at_s):
            pace.looked(at_s)
            taken.append(at_s)
    return taken


@pytest.mark.parametrize("camera_fps", [5.0, 15.0, 25.0, 29.97, 60.0])
@pytest.mark.parametrize("fps", [0.2, 1.0, 7.0, 10.0, 15.0, 24.9, 100.0])
@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_as_many_frames_are_looked_at_as_were_asked_for(camera_fps, fps, jitter):
    taken = looks(Pace(fps), camera_fps, 60.0, jitter)

    assert len(taken) == pytest.approx(60.0 * min(fps, camera_fps), rel=0.03, abs=1.5)


def test_without_a_rate_all_are():
    assert len(looks(Pace(None), 25.0, 10.0)) == 250


def test_a_camera_that_was_dark_is_not_caught_up_with():
    pace = Pace(10.0)
    looks(pace, 25.0, 10.0)

    late = [2000.0 + number / 25 for number in range(25) if pace.is_due(2000.0 + number / 25)]
    for at_s in late[:1]:
        pace.looked(at_s)
    taken = [at_s for at_s in (2000.04, 2000.08, 2000.12) if pace.is_due(at_s)]

    assert len(taken) <= 2


@pytest.mark.parametrize("fps", [10.0, None])
def test_another_rate_counts_from_the_next_frame_on(fps):
    pace = Pace(0.01)
    pace.looked(1000.0)
    assert not pace.is_due(1001.0)

    pace.fps = fps

    assert pace.is_due(1001.0)


def test_the_same_rate_again_changes_nothing():
    pace = Pace(1.0)
    pace.looked(1000.0)

    pace.fps = 1.0

    assert not pace.is_due(1000.3)


def frame(at_s: float) -> Grabbed:
    return Grabbed(at_s, lambda: np.zeros((2, 2, 3), np.uint8))


def test_who_looks_gets_the_newest_frame_and_the_others_are_counted():
    newest = Newest()
    for number in range(5):
        newest.put(frame(number))

    got = newest.take(0.0)

    assert got is not None
    assert (got.at_s, newest.dropped, newest.is_empty) == (4, 4, True)


def test_a_frame_that_was_not_made_into_a_picture_is_counted_and_the_one_before_stays():
    newest = Newest()
    newest.put(frame(7.0))
    newest.put(Grabbed(8.0, None))

    got = newest.take(0.0)

    assert got is not None
    assert (got.at_s, newest.dropped) == (7.0, 1)


def test_who_waits_gets_a_frame_as_soon_as_it_is_there():
    newest = Newest()
    threading.Timer(0.05, newest.put, [frame(7.0)]).start()
    began_s = time.monotonic()

    got = newest.take(10.0)

    assert got is not None
    assert time.monotonic() - began_s < 5.0


def test_the_last_frame_is_given_though_none_follows_and_then_nobody_waits():
    newest = Newest()
    newest.put(frame(7.0))
    newest.end()

    assert newest.ended
    assert newest.take(0.0) is not None
    began_s = time.monotonic()
    assert newest.take(10.0) is None
    assert time.monotonic() - began_s < 1.0


def test_a_rate_is_that_of_the_last_seconds():
    rate = Rate()
    began_s = rate._began_s
    for number in range(1000):
        rate.add(began_s + number / 25)

    assert rate.value(began_s + 40.0) == pytest.approx(25.0, rel=0.02)
    assert rate.value(began_s + 40.0 + WINDOW_S / 2) == pytest.approx(12.5, rel=0.05)
    assert rate.value(began_s + 60.0) == 0.0
    assert len(rate._times) <= WINDOW_S * 25 + 2


def test_latencies_are_those_of_the_last_frames():
    latency = Latency()
    assert latency.quantile(0.5) is None
    for number in range(10 * LATENCIES):
        latency.add(float(number))

    assert latency.quantile(0.0) == 9 * LATENCIES
    assert latency.quantile(0.99) == pytest.approx(10 * LATENCIES, rel=0.01)
