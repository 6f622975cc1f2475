"""What is known of a stream on its node, report by report."""

from __future__ import annotations

import pytest

from jetq.policy.streamcost import SETTLE_S
from jetq.policy.streamstates import after_frame, begin
from jetq.service.account import Account

CAMERA = {"backend": "pyav", "width": 1280, "height": 720, "fps": 25.0, "codec": "h264", "hardware": False}


def report(**fields):
    return {"fps_in": 25.0, "fps_out": 5.0, "frames": 7, "cpu_s": 0.5, "frame_age_s": 0.1, "results": []} | fields


@pytest.fixture
def account() -> Account:
    return Account(0.5, 0.0)


def test_a_camera_is_told_of_in_words(account):
    assert account.open(CAMERA) == "1280x720, h264, by pyav"
    assert account.open(CAMERA | {"codec": "", "backend": "drawn"}) == "1280x720, by drawn"


def test_what_a_stream_takes_is_expected_first_then_measured(account):
    assert account.load(None) is None
    account.open(CAMERA)
    expected = account.load(None)
    assert expected is not None
    assert expected.pixels_s == 1280 * 720 * 25
    account.add(report(cpu_s=None), SETTLE_S + 1)
    assert account.load(None) == expected

    account.add(report(), SETTLE_S + 2)

    load = account.load(None)
    assert load is not None
    assert (load.cores, load.codec) == (0.25, "h264")  # of a PC: this machine is half as fast


def test_nothing_of_a_runner_is_left_when_the_next_one_starts(account):
    account.open(CAMERA)
    account.add(report(), SETTLE_S + 1)
    life = after_frame(begin(0.0), 1.0)
    assert account.reading(life, 20.0, runs=True)["fps_in"] == 25.0

    account.renew(20.0)

    assert account.load(None) is None
    reading = account.reading(begin(20.0), 21.0, runs=True)
    assert "fps_in" not in reading
    assert reading["frame_age_s"] == pytest.approx(10.1), "of the last frame that came at all"


def test_events_are_no_state(account):
    account.add(report(results=["x"], good=3, trace="t", raises=0), 1.0)

    assert {"results", "good", "trace", "raises"}.isdisjoint(account.reading(begin(0.0), 1.0, runs=True))
