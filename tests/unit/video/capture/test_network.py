"""Network cameras, by what the wheels bring: OpenCV with FFmpeg, and PyAV."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from jetq.errors import CameraFault
from jetq.model.stream import wish
from jetq.video.analyzers.motion import Motion
from jetq.video.capture import chain, ffmpeg, pyav
from jetq.video.capture.chain import open_camera
from tests.cameras import Lens, RtspCameras, WebCamera, black_hole
from tests.unit.video.capture.conftest import PASSWORD, no, yes

SIZES = {"gate": (640, 360), "door": (320, 240), "yard": (320, 240)}
CODECS = {"gate": "h264", "door": "h265", "yard": "mjpeg"}


@pytest.fixture(params=["ffmpeg", "pyav"])
def backend(request, monkeypatch):
    for scheme in ("rtsp", "rtsps", "http", "https"):
        monkeypatch.setitem(chain.CHAINS, scheme, (request.param,))
    return request.param


@pytest.fixture
def hasty(monkeypatch):
    """Who does not answer is given up sooner than in earnest: 1 s."""
    for module in (chain, ffmpeg, pyav):
        monkeypatch.setattr(module, "ANSWER_S", 1.0)


@pytest.mark.parametrize("path", SIZES)
def test_a_camera_says_what_it_is_and_gives_its_pictures(lenses, opened, backend, path):
    began = time.monotonic()
    capture = opened(lenses.url(path))
    took_s = time.monotonic() - began
    grabbed = [capture.grab(wanted=yes) for _ in range(20)]

    described = capture.described
    assert (described.backend, described.codec, described.hardware) == (backend, CODECS[path], False)
    assert (described.width, described.height) == SIZES[path]
    assert described.fps in (15.0, None)
    assert took_s < 4
    assert [one.at_s for one in grabbed] == sorted(one.at_s for one in grabbed)
    shown = [one.picture() for one in grabbed]
    assert all(picture.shape == (*SIZES[path][::-1], 3) and picture.dtype == np.uint8 for picture in shown)
    assert not np.array_equal(shown[0], shown[-1])


def test_motion_sees_what_the_camera_sees(lenses, opened, backend):
    capture, motion = opened(lenses.url("gate")), Motion()
    motion.start()
    scores = [motion.frame(capture.grab(wanted=yes).picture(), n / 15).score for n in range(20)]

    assert all(score > 0 for score in scores[10:])


def test_whoever_has_to_make_a_picture_at_once_asks_first_whether_it_is_wanted(lenses, opened, monkeypatch):
    monkeypatch.setitem(chain.CHAINS, "rtsp", ("ffmpeg",))
    capture = opened(lenses.url("gate"))

    assert [capture.grab(wanted=no).picture for _ in range(3)] == [None] * 3
    assert capture.grab(wanted=yes).picture is not None


def test_a_picture_stays_what_it_was_when_frames_follow(lenses, opened, backend):
    capture = opened(lenses.url("yard"))
    kept = capture.grab(wanted=yes).picture()
    before = kept.copy()
    later = [capture.grab(wanted=yes).picture() for _ in range(5)]

    assert np.array_equal(kept, before)
    assert not np.array_equal(kept, later[-1])


def test_credentials_open_the_camera_whatever_they_hold(locked, opened, backend):
    assert opened(locked.url()).described.codec == "h264"


def test_basic_credentials_do_too(opened, backend):
    with RtspCameras(user="admin", password=PASSWORD) as served, WebCamera(user="admin", password="a:b@c/d") as web:
        assert opened(served.url()).described.codec == "h264"
        assert opened(web.url("live")).described.codec == "mjpeg"


def test_a_web_camera_gives_its_pictures(web, opened, backend):
    capture = opened(web.url("live"))
    shown = [capture.grab(wanted=yes).picture() for _ in range(30)]

    assert (capture.described.codec, capture.described.fps) == ("mjpeg", None)
    assert (capture.described.width, capture.described.height) == (320, 240)
    assert all(picture.shape == (240, 320, 3) for picture in shown)


@pytest.mark.parametrize("path", ["stall", "cut"])
def test_a_camera_that_ends_is_a_fault_within_what_counts_as_a_stall(web, opened, backend, path):
    capture = opened(web.url(path), stall_s=2)
    began = time.monotonic()
    with pytest.raises(CameraFault):
        for _ in range(20):
            capture.grab(wanted=yes)

    assert time.monotonic() - began < 10


def test_damaged_pictures_are_left_out_and_no_reason_to_end(web, opened, backend):
    capture = opened(web.url("broken"))

    assert all(capture.grab(wanted=yes).picture().shape == (240, 320, 3) for _ in range(20))


def test_a_frozen_camera_is_a_fault(opened, backend):
    with RtspCameras() as served:
        capture = opened(served.url(), stall_s=1)
        capture.grab(wanted=no)
        served.freeze()
        began = time.monotonic()
        with pytest.raises(CameraFault):
            for _ in range(100):
                capture.grab(wanted=no)

    assert time.monotonic() - began < (5 if backend == "pyav" else 30)


def test_a_killed_camera_is_a_fault_at_once_and_its_return_opens_again(opened, backend):
    with RtspCameras() as served:
        capture = opened(served.url())
        served.kill()
        began = time.monotonic()
        with pytest.raises(CameraFault):
            for _ in range(100):
                capture.grab(wanted=no)
        assert time.monotonic() - began < 3

        served.start()
        assert opened(served.url()).grab(wanted=yes).picture().shape == (360, 640, 3)


def test_two_watch_one_camera(lenses, opened, backend):
    first, second = opened(lenses.url("gate")), opened(lenses.url("gate"))

    assert all(capture.grab(wanted=yes).picture().shape == (360, 640, 3) for capture in (first, second) * 10)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("hall", "it sends sound only, no video"),
        ("attic", "it has no such stream (404): check the path of the address"),
        ('" ! fakesink ! "', "it has no such stream (404): check the path of the address"),
    ],
)
def test_the_reason_is_said_in_words(lenses, opened, path, why):
    uri = lenses.url(path.replace(" ", "%20"))
    with pytest.raises(CameraFault) as fault:
        opened(uri)

    assert str(fault.value) == f"{uri}: {why}"
    assert not fault.value.hopeless


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("", "it wants a user name and a password"),
        ("admin:wrong-word@", "it refuses the user name or the password"),
        ("ad%20min:wrong-word@", "it refuses the user name or the password"),
    ],
)
def test_a_wrong_password_is_named_as_such_and_told_once(locked, opened, user, why):
    with pytest.raises(CameraFault) as fault:
        opened(locked.url(credentials=False).replace("://", f"://{user}"))

    assert str(fault.value).endswith(f"/cam0: {why} (401)")
    assert "wrong-word" not in str(fault.value)


@pytest.mark.parametrize("scheme", ["rtsp", "rtsps", "http"])
def test_who_takes_a_connection_and_never_answers_is_silent(opened, hasty, scheme):
    with black_hole() as port:
        began = time.monotonic()
        with pytest.raises(CameraFault) as fault:
            opened(f"{scheme}://127.0.0.1:{port}/cam0")

    assert time.monotonic() - began < 5
    assert "silent" in str(fault.value)


@pytest.mark.parametrize("scheme", ["rtsp", "rtsps", "http", "https"])
def test_nobody_there_is_no_connection(opened, scheme):
    with black_hole() as port:
        pass
    with pytest.raises(CameraFault, match=r"no connection \(Connection refused\)$"):
        opened(f"{scheme}://127.0.0.1:{port}/cam0")


def test_a_host_that_nobody_knows_is_named(opened):
    with pytest.raises(CameraFault, match="no connection"):
        opened("rtsp://camera.invalid/1")


@pytest.mark.parametrize("path", ["text", "garbage", "list", "nothing"])
def test_what_is_no_camera_is_told_with_what_was_tried(web, opened, hasty, path):
    began = time.monotonic()
    with pytest.raises(CameraFault) as fault:
        opened(web.url(path))

    assert time.monotonic() - began < 15
    assert str(fault.value).startswith(f"{web.url(path)}: ffmpeg: ")
    assert "; pyav: " in str(fault.value)
    assert "; gst-sw: OpenCV" in str(fault.value)
    assert not fault.value.hopeless


def test_a_web_server_is_no_rtsp_camera(web, opened):
    with pytest.raises(CameraFault, match=r"no RTSP camera|hangs up|silent"):
        opened(web.url("live").replace("http", "rtsp"))


def test_an_encrypted_line_needs_no_certificate_that_somebody_signed(tmp_path, opened, backend):
    pem = tmp_path / "camera.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=camera"]
    subprocess.run([*made, "-keyout", pem, "-out", tmp_path / "cert"], check=True, capture_output=True, timeout=30)
    pem.write_text(pem.read_text() + (tmp_path / "cert").read_text())
    with RtspCameras([Lens()], certificate=pem) as served:
        assert opened(served.url()).described.codec == "h264"


@pytest.mark.parametrize("path", ["cam0", "attic", "cam0?token=hush-hush"])
def test_no_library_prints_a_password(locked, path):
    code = (
        "import sys; from jetq.errors import CameraFault; from jetq.model.stream import wish\n"
        "from jetq.video.capture import chain\n"
        "spec, secrets = wish({'uri': sys.argv[1]})\n"
        "chain._asked = lambda source, asking: source\n"  # so that the libraries themselves get to what is wrong
        "for name in ('ffmpeg', 'pyav'):\n"
        "    chain.CHAINS['rtsp'] = (name,)\n"
        "    try: print(chain.open_camera(spec, secrets.get(spec.uri)).described)\n"
        "    except CameraFault as fault: print(fault)\n"
    )
    url = locked.url(path).replace("p%40ss", "wrong-word" if path == "cam0" else "p%40ss")
    ran = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60)

    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert len(ran.stdout.splitlines()) >= 2
    for secret in ("p@ss", "p%40ss", "wrong-word", "hush-hush"):
        assert secret not in said


def test_a_secret_that_is_missing_is_said_before_anything_is_opened():
    spec, _ = wish({"uri": "rtsp://admin:secret@127.0.0.1:9/1"})
    with pytest.raises(CameraFault, match="credentials"):
        open_camera(spec, None)
