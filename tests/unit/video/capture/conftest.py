"""Cameras for all tests of a folder: they cost a second each to start.

lenses   an RTSP server with cameras gate (H.264 and sound), door (H.265), yard (MJPEG) and hall (sound only)
locked   an RTSP server whose camera wants a user and a password with every nasty character, by digest
web      a camera that sends JPEG pictures over HTTP
opened   opens an address as a stream does, and closes it when the test ends
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jetq.model.stream import wish
from jetq.video.capture.base import Capture
from jetq.video.capture.chain import open_camera
from tests.cameras import Lens, RtspCameras, WebCamera

#: Whatever breaks out of quotes, of an address, of a launch line or of a list of options.
PASSWORD = "p@ss:/?#[]\"'\\ ! | ; % é"
USER = "ad min"


def yes() -> bool:
    """Every picture is wanted."""
    return True


def no() -> bool:
    """No picture is wanted."""
    return False


@pytest.fixture(scope="session")
def lenses() -> Iterator[RtspCameras]:
    cameras = [
        Lens("gate", sound=True),
        Lens("door", "h265", 320, 240),
        Lens("yard", "mjpeg", 320, 240),
        Lens("hall", ""),
    ]
    with RtspCameras(cameras) as served:
        yield served


@pytest.fixture(scope="session")
def locked() -> Iterator[RtspCameras]:
    with RtspCameras(user=USER, password=PASSWORD, digest=True) as served:
        yield served


@pytest.fixture(scope="session")
def web() -> Iterator[WebCamera]:
    with WebCamera() as served:
        yield served


@pytest.fixture
def opened() -> Iterator[Callable[..., Capture]]:
    captures: list[Capture] = []

    def open_(uri: str, **fields: Any) -> Capture:
        spec, secrets = wish({"uri": uri, **fields})
        captures.append(open_camera(spec, secrets.get(spec.uri)))
        return captures[-1]

    yield open_
    for capture in captures:
        capture.close()
