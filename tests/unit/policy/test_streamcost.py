"""What streams cost."""

from __future__ import annotations

import math

import pytest

from jetq.model.stream import StreamSpec
from jetq.policy.decode import HD_PIXELS_S, budget
from jetq.policy.streamcost import (
    DECODE_CORES,
    LEAST_SLOTS,
    LOOK_CORES,
    SETTLE_S,
    SMOOTH_S,
    Load,
    Machine,
    Meter,
    Reading,
    cost,
    expected,
    guess,
)

PC = Machine(4, 4)
ORIN = Machine(8, 8, 0.5, budget("Orin NX"))


def test_the_larger_share_of_processor_and_decoder_counts():
    decoder = cost(Load(0.4, 2 * HD_PIXELS_S, "h264"), ORIN)
    assert (decoder.slots, decoder.decode) == pytest.approx((1.6, 0.2))

    processor = cost(Load(2.0, HD_PIXELS_S, "h264"), ORIN)
    assert (processor.slots, processor.decode) == pytest.approx((4.0, 0.1))


def test_where_no_decoder_is_the_processor_pays_once():
    load = Load(0.4, HD_PIXELS_S, "h264")
    assert cost(load, PC).slots == pytest.approx(0.4 + DECODE_CORES)
    assert cost(load, PC).decode == 0.0
    # What was measured on a PC has its decoding in it already.
    assert cost(Load(0.7, HD_PIXELS_S, "h264", by_board=False), PC).slots == pytest.approx(0.7)
    assert cost(Load(0.4, HD_PIXELS_S, "mjpeg"), ORIN).slots > cost(Load(0.4, HD_PIXELS_S, ""), ORIN).slots


def test_what_is_said_stands_but_the_decoder_is_counted():
    found = cost(Load(9.0, HD_PIXELS_S, "h264"), ORIN, declared=0.5)

    assert (found.slots, found.decode) == pytest.approx((0.5, 0.1))


def test_nothing_costs_nothing_and_nothing_costs_more_than_the_machine():
    assert cost(Load(0.0, 0.0, ""), PC).slots == LEAST_SLOTS
    assert cost(Load(99.0, 0.0, ""), PC).slots == 4.0
    assert cost(Load(0.1, 99 * HD_PIXELS_S, "h264"), ORIN).decode == 1.0


@pytest.mark.parametrize(
    ("fields", "load"),
    [
        ({"uri": "rtsp://cam/1"}, Load(LOOK_CORES, HD_PIXELS_S, "h264")),
        ({"uri": "rtsp://cam/1", "fps": 15}, Load(LOOK_CORES / 2, HD_PIXELS_S, "h264")),
        ({"uri": "rtsp://cam/1", "fps": 60}, Load(LOOK_CORES, HD_PIXELS_S, "h264")),
        ({"uri": "http://cam/1", "size": "960x540"}, Load(LOOK_CORES / 4, HD_PIXELS_S / 4, "mjpeg")),
        ({"uri": "csi:0", "node": "a"}, Load(LOOK_CORES, HD_PIXELS_S, "")),
        ({"uri": "test:ball?size=1920x1080&fps=15"}, Load(LOOK_CORES / 2, HD_PIXELS_S / 2, "")),
    ],
)
def test_a_guess_knows_what_the_address_says(fields, load):
    assert guess(StreamSpec(**fields)) == load


def test_a_meter_says_nothing_before_its_stream_has_settled_and_then_the_smoothed_reading_of_a_pc():
    meter = Meter(since_s=100.0)
    for at_s in range(100, 110):
        meter = meter.after(Reading(4.0, 1e9, "h264", True), 0.5, float(at_s))
    assert meter.load is None

    meter = meter.after(Reading(1.0, 1e6, "h264", True), 0.5, 100.0 + SETTLE_S)
    assert meter.load == Load(0.5, 1e6, "h264", True)
    meter = meter.after(Reading(2.0, 1e6, "h265", False), 0.5, 100.0 + SETTLE_S + SMOOTH_S)
    assert meter.load == Load(pytest.approx(1.0 - 0.5 / math.e), 1e6, "h265", False)


def test_a_broken_reading_changes_nothing():
    meter = Meter(0.0).after(Reading(1.0, 1e6, "h264", True), 1.0, 20.0)

    assert meter.after(Reading(math.nan, -1.0, "h264", True), 1.0, 30.0).load == meter.load


def test_an_open_camera_lets_expect_what_it_will_take_before_that_is_measured():
    hd = expected(None, 1920 * 1080, 30.0, "h264")
    small = expected(5.0, 640 * 360, 15.0, "h264")

    assert (hd.cores, hd.pixels_s) == (1.0, HD_PIXELS_S)
    assert small.cores == pytest.approx(640 * 360 * 5 / HD_PIXELS_S)
    assert expected(None, 640 * 360, None, "").pixels_s == 640 * 360 * 30
