"""The order in which libraries are tried, and what is said where all fail."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from jetq.errors import CameraFault
from jetq.model.camera_uri import EXAMPLES
from jetq.model.credentials import Secret
from jetq.model.stream import StreamSpec, wish
from jetq.video.capture import chain
from jetq.video.capture.base import Source
from jetq.video.capture.drawn import DrawnCapture


def fails(why: str, *, hopeless: bool = False):
    def opener(source: Source):
        raise CameraFault(why.format(address=source.address), hopeless=hopeless)

    return opener


@pytest.fixture
def openers(monkeypatch):
    """Give the openers by name; a test puts its own in place of them."""
    found = {}
    monkeypatch.setattr(chain, "_opener", found.__getitem__)
    monkeypatch.setitem(chain.CHAINS, "test", ("first", "second", "third"))
    return found


def test_every_kind_of_camera_has_a_chain():
    assert set(chain.CHAINS) == set(EXAMPLES)


def test_the_first_that_opens_is_taken(openers):
    openers |= {"first": fails("it has none"), "second": DrawnCapture, "third": fails("never asked")}

    assert chain.open_camera(StreamSpec("test:ball"), None).described.backend == "drawn"


def test_each_that_failed_says_why_in_one_line(openers):
    openers |= {"first": fails("has none"), "second": fails("too old", hopeless=True), "third": fails("no frame")}
    with pytest.raises(CameraFault) as fault:
        chain.open_camera(StreamSpec("test:still"), None)

    assert str(fault.value) == "test:still?size=640x360&fps=15: first: has none; second: too old; third: no frame"
    assert not fault.value.hopeless


def test_what_a_library_says_is_shown_without_the_secrets(openers, monkeypatch):
    monkeypatch.setitem(chain.CHAINS, "http", ("first",))
    monkeypatch.setattr(chain, "_asked", lambda source, asking: source)
    openers["first"] = fails("cannot open {address} (wrong password s3cr3t/word)")
    spec, secrets = wish({"uri": "http://admin:s3cr3t%2Fword@cam/1?token=abcdef"})
    with pytest.raises(CameraFault) as fault:
        chain.open_camera(spec, secrets[spec.uri])

    assert str(fault.value).startswith("http://***@cam/1?token=***: cannot open http://***@cam/1?token=***")
    assert not any(word in str(fault.value) for word in ("s3cr3t", "abcdef"))


def test_a_camera_that_takes_one_connection_at_a_time_is_let_go_of_and_tried_once_more(openers, monkeypatch):
    line = socket.socket()
    monkeypatch.setattr(chain, "ask", lambda address, within_s: ("h264", line))
    monkeypatch.setitem(chain.CHAINS, "rtsp", ("first", "last"))

    def alone(source: Source) -> DrawnCapture:
        if line.fileno() >= 0:
            raise CameraFault("somebody watches it")
        return DrawnCapture(source)

    openers |= {"first": fails("has none"), "last": alone}

    assert chain.open_camera(StreamSpec("rtsp://cam/1"), None).described.backend == "drawn"


def test_another_cameras_secret_opens_nothing():
    with pytest.raises(CameraFault, match="credentials"):
        chain.open_camera(StreamSpec("test:ball"), Secret("admin", "secret"))


def test_what_is_not_installed_is_said_in_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    for module in [name for name in sys.modules if name in ("jetq.video.capture.pyav", "jetq.video.capture.film")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(CameraFault, match=r"^file:/x\.mp4: PyAV is not installed on this machine$"):
        chain.open_camera(StreamSpec("file:/x.mp4"), None)


def test_loading_ahead_loads_all_that_is_here():
    code = "from jetq.video.capture import chain; chain.preload(); import sys; print({'av', 'cv2'} <= set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (ran.stdout.strip(), ran.stderr) == ("True", "")
