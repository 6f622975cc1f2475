"""Open a camera: one library after the other, until one of them gives a frame."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib import import_module
from urllib.parse import urlsplit

from jetq.errors import CameraFault, UsageError
from jetq.model.camera_uri import picture_size
from jetq.model.credentials import Secret, put_together, redact
from jetq.model.stream import StreamSpec
from jetq.video.capture.addresses import ANSWER_S, plain
from jetq.video.capture.base import Capture, Source
from jetq.video.capture.rtsp import ask, no_connection

_NETWORK = ("gst-hw", "gst-sw", "ffmpeg", "pyav")
#: JPEG pictures are nothing for a board's decoder.
_WEB = ("ffmpeg", "pyav", "gst-sw")
#: What opens cameras of each kind, the best first. A module is loaded only when its turn comes: not every machine has
#: every library.
CHAINS: dict[str, tuple[str, ...]] = {
    "rtsp": _NETWORK,
    "rtsps": _NETWORK,
    "http": _WEB,
    "https": _WEB,
    "v4l2": ("gst-hw", "gst-sw", "v4l2", "pyav"),
    "csi": ("gst-hw",),
    "file": ("film",),
    "test": ("drawn",),
}
#: Where each lives.
_HOME = {
    "gst-hw": "jetq.video.capture.gst:BoardGstCapture",
    "gst-sw": "jetq.video.capture.gst:GstCapture",
    "ffmpeg": "jetq.video.capture.ffmpeg:FfmpegCapture",
    "v4l2": "jetq.video.capture.ffmpeg:V4l2Capture",
    "pyav": "jetq.video.capture.pyav:PyavCapture",
    "film": "jetq.video.capture.film:FilmCapture",
    "drawn": "jetq.video.capture.drawn:DrawnCapture",
}
#: What such a module may miss on a machine, and what people call it.
_LIBRARIES = {"cv2": "OpenCV", "av": "PyAV", "numpy": "NumPy"}
_RTSP = ("rtsp", "rtsps")
_PORTS = {"http": 80, "https": 443}


def open_camera(spec: StreamSpec, secret: Secret | None) -> Capture:
    """Open the camera of a stream, and return it with its first frame at hand.

    Raises:
        CameraFault: nothing on this machine opens it; the message names what was tried and why it failed, without
            credentials.
    """
    shown, secrets = spec.uri, [] if secret is None else [secret]
    size = picture_size(spec.size) if spec.size else None
    try:
        source = Source(spec.camera, put_together(shown, secret), size, spec.loop, spec.stall_s)
        with ExitStack() as asking:
            return _first_that_opens(_asked(source, asking), asking)
    except UsageError as exc:
        raise CameraFault(str(exc)) from exc
    except CameraFault as exc:
        raise CameraFault(f"{shown}: {redact(str(exc), secrets)}", hopeless=exc.hopeless) from None


def preload() -> None:
    """Load all that is installed here, so that a process which is forked from this one opens a camera at once."""
    for name in _HOME:
        with suppress(CameraFault):
            _opener(name)


def _first_that_opens(source: Source, asking: ExitStack) -> Capture:
    names = CHAINS[source.camera.scheme]
    faults: list[CameraFault] = []
    for name in names:
        try:
            return _opener(name)(source)
        except CameraFault as exc:
            faults.append(exc)
    if source.camera.scheme in _RTSP:
        asking.close()  # a camera that takes one connection at a time had ours
        with suppress(CameraFault):
            return _opener(names[-1])(source)
    if len(names) == 1:
        raise faults[0]
    raise CameraFault("; ".join(f"{name}: {fault}" for name, fault in zip(names, faults, strict=True)))


def _asked(source: Source, asking: ExitStack) -> Source:
    """Return it with what it says of itself.

    Args:
        asking: ends the connection on which it was asked.

    Raises:
        CameraFault: it is not there, or refuses; no library would get further, or say why in plain words.
    """
    scheme, place = source.camera.scheme, source.camera.place
    if scheme in _RTSP:
        codec, line = ask(source.address, within_s=ANSWER_S)
        asking.enter_context(line)
        return replace(source, codec=codec)
    if scheme in _PORTS:
        parts = urlsplit(plain(source.address))
        try:
            socket.create_connection((parts.hostname, parts.port or _PORTS[scheme]), ANSWER_S).close()
        except OSError as exc:
            raise CameraFault(no_connection(exc, ANSWER_S)) from exc
    if scheme == "v4l2" and not os.path.exists(place):
        raise CameraFault("there is no such device on this node; is it plugged in?")
    return source


def _opener(name: str) -> Callable[[Source], Capture]:
    module, _, attribute = _HOME[name].partition(":")
    try:
        opener: Callable[[Source], Capture] = getattr(import_module(module), attribute)
    except ModuleNotFoundError as exc:
        if exc.name not in _LIBRARIES:
            raise
        raise CameraFault(f"{_LIBRARIES[exc.name]} is not installed on this machine") from exc
    return opener
