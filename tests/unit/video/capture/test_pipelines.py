"""Pipelines as text: whatever an address holds stays in its quotes."""

from __future__ import annotations

import re
import string
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.errors import UsageError
from jetq.model.camera_uri import CameraUri, parse
from jetq.video.capture import pipelines
from jetq.video.capture.addresses import ffmpeg_options, plain
from jetq.video.capture.base import Source

ADDRESS = "rtsp://admin:p%40ss@192.168.1.20:8554/live/1?channel=1&subtype=0"


def test_a_board_decodes_and_converts_by_itself():
    assert pipelines.rtsp(ADDRESS, "h265", hardware=True) == (
        f'rtspsrc location="{ADDRESS}" protocols=tcp latency=100 drop-on-latency=true tcp-timeout=5000000 ! '
        "application/x-rtp,media=video ! rtph265depay ! h265parse ! nvv4l2decoder enable-max-performance=1 ! "
        "nvvidconv ! video/x-raw,format=BGRx ! videoconvert ! "
        "video/x-raw,format=BGR ! appsink max-buffers=1 drop=true sync=false"
    )


def test_its_twin_needs_no_board():
    twin = pipelines.rtsp(ADDRESS, "h264", hardware=False)

    assert "rtph264depay ! h264parse ! avdec_h264 max-threads=1 ! videoconvert ! video/x-raw,format=BGR !" in twin
    assert "nv" not in pipelines.elements(twin)


def test_local_cameras_are_asked_for_a_size():
    assert pipelines.csi(1, (1280, 720)).startswith(
        "nvarguscamerasrc sensor-id=1 ! video/x-raw(memory:NVMM),width=1280,height=720 ! nvvidconv ! "
    )
    assert pipelines.usb("/dev/video0", (640, 480), jpeg=True, hardware=False).startswith(
        'v4l2src device="/dev/video0" ! image/jpeg,width=640,height=480 ! jpegdec ! videoconvert ! '
    )
    assert "nvv4l2decoder enable-max-performance=1 mjpeg=1 ! nvvidconv" in pipelines.usb(
        "/dev/video0", None, jpeg=True, hardware=True
    )
    assert pipelines.usb("/dev/video0", None, jpeg=False, hardware=False).startswith(
        'v4l2src device="/dev/video0" ! video/x-raw ! videoconvert ! '
    )


@pytest.mark.parametrize(
    ("pipeline", "names"),
    [
        (pipelines.web("http://cam/1"), "souphttpsrc multipartdemux jpegdec videoconvert appsink"),
        (pipelines.csi(0, None), "nvarguscamerasrc nvvidconv videoconvert appsink"),
    ],
)
def test_the_elements_of_a_pipeline_are_known(pipeline, names):
    assert pipelines.elements(pipeline) == names.split()


hostile = st.text(st.one_of(st.characters(), st.sampled_from("\"'\\! \t\n;|%@#=")), max_size=60)


@given(hostile)
def test_no_address_breaks_out_of_its_quotes(tail):
    inside = pipelines.quoted(f"rtsp://cam/{tail}")

    assert re.fullmatch(r'"[^"\\\s]*"', inside)
    assert unquote(inside[1:-1]) == unquote(f"rtsp://cam/{tail}")
    for hardware in (True, False):
        whole = pipelines.rtsp(f"rtsp://cam/{tail}", "h264", hardware=hardware)
        assert pipelines.elements(whole) == pipelines.elements(pipelines.rtsp("rtsp://cam/", "h264", hardware=hardware))


@given(hostile)
def test_no_device_does_either(tail):
    try:
        camera = parse(f"v4l2:/dev/{tail}")[0]
    except UsageError:
        return

    assert pipelines.quoted(camera.place) == f'"{camera.place}"'


@given(st.text(string.printable, max_size=60))
def test_what_is_a_plain_address_already_stays_as_it_is(tail):
    once = plain(f"http://cam/{tail}")

    assert plain(once) == once
    assert set(once) <= set(string.ascii_letters + string.digits + "%:/?#[]@!$&()*+,;=-._~")


@pytest.mark.parametrize("scheme", ["rtsp", "rtsps", "http", "https"])
def test_a_network_camera_opens_no_file_of_the_node(scheme):
    options = ffmpeg_options(Source(CameraUri(scheme, f"{scheme}://cam/1", "cam"), f"{scheme}://cam/1"))

    assert "file" not in options["protocol_whitelist"].split(",")
    assert not any(mark in value for value in options.values() for mark in "|;")
