"""Cameras by GStreamer, with the OpenCV of the system, which has it. What its Python lacks (PyAV) is not needed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cameras import PACKAGES, SYSTEM_PYTHON, Lens, RtspCameras, WebCamera
from tests.unit.video.capture.conftest import PASSWORD, USER

ROOT = Path(__file__).resolve().parents[4]
LOOK = """
import json, sys, time
from jetq.errors import CameraFault
from jetq.model.stream import wish
from jetq.video.capture import chain

for asked in json.loads(sys.argv[1]):
    backends = asked.pop("backends", None)
    spec, secrets = wish({"stall_s": 2} | asked)
    if backends:
        chain.CHAINS[spec.camera.scheme] = tuple(backends)
    began = time.monotonic()
    told = {"fault": ""}
    try:
        capture = chain.open_camera(spec, secrets.get(spec.uri))
        told |= {name: getattr(capture.described, name) for name in capture.described.__slots__}
        told["opened_s"] = time.monotonic() - began
        pictures = [capture.grab(wanted=lambda n=n: n % 2 == 0).picture for n in range(10)]
        told["wanted"] = [make is not None for make in pictures]
        told["shapes"] = [list(make().shape) for make in pictures if make]
        told["moves"] = bool((pictures[0]() != pictures[-2]()).any())
        capture.close()
    except CameraFault as fault:
        told["fault"] = str(fault)
    print(json.dumps(told | {"took_s": time.monotonic() - began}), flush=True)
"""


def look(*asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Open cameras, one after the other, in a process of the system's Python, and return what each was."""
    with tempfile.TemporaryDirectory() as home:  # GStreamer keeps what it knows of its plugins there
        ran = subprocess.run(
            [SYSTEM_PYTHON, "-c", LOOK, json.dumps(asked)],
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": home},
            capture_output=True,
            text=True,
            timeout=90,
        )
    assert ran.returncode == 0, f"{ran.stderr}\nDebian, Ubuntu: apt install {PACKAGES}"
    for secret in ("p@ss", "p%40ss", "wrong-word"):
        assert secret not in ran.stdout + ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def seen(lenses: RtspCameras) -> dict[str, dict[str, Any]]:
    paths = ("gate", "door", "yard")
    return dict(zip(paths, look(*({"uri": lenses.url(path)} for path in paths)), strict=True))


@pytest.mark.parametrize(
    ("path", "codec", "size"),
    [("gate", "h264", (640, 360)), ("door", "h265", (320, 240)), ("yard", "mjpeg", (320, 240))],
)
def test_where_there_is_no_board_the_twin_of_its_pipeline_opens_the_camera(seen, path, codec, size):
    told = seen[path]

    assert told["fault"] == ""
    assert (told["backend"], told["codec"], told["hardware"]) == ("gst-sw", codec, False)
    assert (told["width"], told["height"]) == size
    assert told["fps"] in (15.0, None)
    assert told["opened_s"] < 5
    assert told["wanted"] == [True, False] * 5
    assert told["shapes"] == [[*size[::-1], 3]] * 5
    assert told["moves"]


def test_a_machine_without_the_boards_decoder_says_so_at_once(lenses):
    (told,) = look({"uri": lenses.url("gate"), "backends": ["gst-hw"]})

    assert told["fault"] == f"{lenses.url('gate')}: GStreamer has no nvv4l2decoder on this machine"
    assert told["took_s"] < 3


def test_each_of_the_chain_says_why_it_failed(web):
    (told,) = look({"uri": web.url("text")})

    assert "ffmpeg: it cannot be opened; pyav: PyAV is not installed on this machine; gst-sw: " in told["fault"]


@pytest.mark.parametrize("digest", [True, False])
def test_credentials_of_any_kind_open_it(digest):
    with RtspCameras(user=USER, password=PASSWORD, digest=digest) as served:
        by_gst, by_ffmpeg = look(*({"uri": served.url(), "backends": [name]} for name in ("gst-sw", "ffmpeg")))

    assert (by_gst["fault"], by_gst.get("backend"), by_gst.get("codec")) == ("", "gst-sw", "h264")
    assert (by_ffmpeg["fault"], by_ffmpeg.get("backend"), by_ffmpeg.get("codec")) == ("", "ffmpeg", "h264")


def test_a_hostile_address_starts_nothing(lenses, tmp_path):
    mark = tmp_path / "written"
    hostile = f'gate" ! filesink location="{mark}" ! fakesink name="x'.replace(" ", "%20")
    (told,) = look({"uri": lenses.url(hostile), "backends": ["gst-sw"]})

    assert "no such stream (404)" in told["fault"]
    assert not mark.exists()


def test_pictures_over_http_come_by_gstreamer_too(web):
    (told,) = look({"uri": web.url("live"), "backends": ["gst-sw"]})

    assert (told["fault"], told["backend"], told["codec"], told["fps"]) == ("", "gst-sw", "mjpeg", None)
    assert told["shapes"] == [[240, 320, 3]] * 5


def test_a_camera_that_is_killed_ends_the_capture(web):
    (told,) = look({"uri": web.url("cut"), "backends": ["gst-sw"]})

    assert "gives no frame" in told["fault"]


def test_local_cameras_that_are_not_there_say_so():
    usb, csi = look({"uri": "v4l2:/dev/video63", "node": "a"}, {"uri": "csi:0", "node": "a"})

    assert usb["fault"] == "v4l2:/dev/video63: there is no such device on this node; is it plugged in?"
    assert csi["fault"] == "csi:0: GStreamer has no nvarguscamerasrc on this machine"


def test_what_is_no_camera_is_a_device_that_nothing_opens():
    (told,) = look({"uri": "v4l2:/dev/null", "node": "a"})

    assert "gst-hw: GStreamer has no nvv4l2decoder" in told["fault"]
    assert "gst-sw: it cannot be opened; v4l2: it cannot be opened; pyav: " in told["fault"]


def test_the_password_of_a_camera_is_printed_by_none(tmp_path):
    with (
        RtspCameras([Lens()], user="admin", password="p@ss-word") as served,
        WebCamera(user="a", password="p@ss") as web,
    ):
        wrong = served.url().replace("p%40ss", "wrong-word")
        told = look(
            {"uri": wrong},
            {"uri": served.url("attic")},
            {"uri": web.url("attic")},
            {"uri": web.url("live", credentials=False)},
        )

    assert all("***" in one["fault"] or "401" in one["fault"] or "cannot" in one["fault"] for one in told)
