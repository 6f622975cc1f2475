"""What OpenCV opens: by FFmpeg, by GStreamer or by V4L2, whichever its build has."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

import cv2

from jetq.errors import CameraFault
from jetq.video.capture.addresses import WEB, usable_fps
from jetq.video.capture.base import Described, Grabbed, Picture, Source

#: How a build's own description of itself calls what jetq uses.
_PARTS = {"FFmpeg": r"FFMPEG", "GStreamer": r"GStreamer", "V4L2": r"v4l/v4l2"}
#: So many frames that do not come, one after the other and at once, are the end.
_DAMAGED = 10
#: Names of codecs that OpenCV gives, and ours.
_CODECS = {"h264": "h264", "avc1": "h264", "hevc": "h265", "hev1": "h265", "hvc1": "h265", "mjpg": "mjpeg"}


def need(part: str) -> None:
    """Refuse at once what this build of OpenCV has not.

    Raises:
        CameraFault: it is a build without ``FFmpeg``, ``GStreamer`` or ``V4L2``.
    """
    if not re.search(rf"^\s*{_PARTS[part]}:\s+YES", cv2.getBuildInformation(), re.MULTILINE):
        raise CameraFault(f"OpenCV {cv2.__version__} of this machine was built without {part}")


@cache
def version() -> tuple[int, ...]:
    """Return the version of OpenCV."""
    return tuple(int(number) for number in re.findall(r"\d+", cv2.__version__)[:2])


class OpenCvCapture:
    """An open ``cv2.VideoCapture`` that has given its first frame."""

    def __init__(
        self,
        opened: cv2.VideoCapture,
        backend: str,
        source: Source,
        *,
        codec: str | None = None,
        hardware: bool = False,
    ) -> None:
        """Wait for the first frame.

        Args:
            codec: what it decodes; None: ask OpenCV.

        Raises:
            CameraFault: it was not opened, or gives no frame.
        """
        self._opened = opened
        self._patience_s = source.stall_s
        self._began_s: float | None = None
        if not opened.isOpened():
            raise CameraFault("it cannot be opened")
        picture = self._first()
        height, width = picture.shape[:2]
        fps = None if source.camera.scheme in WEB else usable_fps(opened.get(cv2.CAP_PROP_FPS))
        said = _codec(opened) if codec is None else codec
        self.described = Described(backend, width, height, fps, said, hardware)

    def grab(self, *, wanted: Callable[[], bool]) -> Grabbed | None:
        """Wait for the next frame. Its picture is made at once, if somebody wants it: the next one takes its place.

        Raises:
            CameraFault: no frame comes any more.
        """
        at_s, self._began_s = self._began_s, None
        if at_s is None:
            self._next()
            at_s = time.monotonic()
        picture = self._retrieved() if wanted() else None
        return Grabbed(at_s, None if picture is None else lambda: picture)

    def close(self) -> None:
        """Let go of the camera."""
        self._opened.release()

    def _next(self) -> None:
        """Wait for a frame. One that is damaged looks like the end, but another follows it."""
        began_s = time.monotonic()
        for _ in range(_DAMAGED):
            if self._opened.grab():
                return
            if time.monotonic() - began_s >= self._patience_s / 2:
                break
        raise CameraFault("it gives no frame any more")

    def _first(self) -> Picture:
        if not self._opened.grab():
            self._opened.release()
            raise CameraFault("it is opened, but gives no frame")
        self._began_s = time.monotonic()
        return self._retrieved()

    def _retrieved(self) -> Picture:
        good, picture = self._opened.retrieve()
        if not good or picture is None or picture.ndim != 3 or picture.shape[2] != 3:
            raise CameraFault("its frames cannot be made into colour pictures")
        return cast(Picture, picture)


def opened(what: str | int, by: int, limits: Sequence[int] = ()) -> cv2.VideoCapture:
    """Open by one library of OpenCV.

    What it would print is left out, as it may hold the address; why it failed it tells nobody.
    """
    os.environ["OPENCV_FFMPEG_LOGLEVEL"] = "-8"  # quiet
    set_level = getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel  # it has moved
    set_level(0)  # silent
    try:
        return cv2.VideoCapture(what, by, list(limits)) if limits else cv2.VideoCapture(what, by)
    except cv2.error as exc:
        raise CameraFault(f"OpenCV refuses it ({exc.code})") from exc


def _codec(opened: cv2.VideoCapture) -> str:
    code = int(opened.get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
    word = code.to_bytes(4, "little").decode("ascii", "replace").strip("\0 ").lower()
    return _CODECS.get(word, word if word.isalnum() else "")
