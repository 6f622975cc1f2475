"""Network cameras by OpenCV's FFmpeg, and USB cameras by its V4L2."""

from __future__ import annotations

import os
import re

import cv2

from jetq.errors import CameraFault
from jetq.video.capture.addresses import ANSWER_S, WEB, ffmpeg_options, plain
from jetq.video.capture.base import Source
from jetq.video.capture.opencv import OpenCvCapture, need, opened

#: The first frame is waited for so long (s): a key frame may be some seconds away.
_FIRST_S = 8.0
#: From this libavformat (FFmpeg 5) on, ``timeout`` of an RTSP address is one; before, it made FFmpeg a server.
_TIMEOUT_SINCE = 59


class FfmpegCapture(OpenCvCapture):
    """A network camera."""

    def __init__(self, source: Source) -> None:
        """Open it, and wait for its first frame.

        Raises:
            CameraFault: it cannot be opened, or gives no frame.
        """
        need("FFmpeg")
        options = ffmpeg_options(source) | _timeout(source.camera.scheme)
        # For the whole process, which has this one camera.
        os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "|".join(f"{name};{value}" for name, value in options.items())
        read_s = max(_FIRST_S, source.stall_s * 0.8)
        limits_ms = (int(ANSWER_S * 1000), int(read_s * 1000))
        limits = (cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, limits_ms[0], cv2.CAP_PROP_READ_TIMEOUT_MSEC, limits_ms[1])
        capture = opened(plain(source.address), cv2.CAP_FFMPEG, (*limits, *_one_thread()))
        super().__init__(capture, "ffmpeg", source)


class V4l2Capture(OpenCvCapture):
    """A USB camera."""

    def __init__(self, source: Source) -> None:
        """Open it, and wait for its first frame.

        Raises:
            CameraFault: it cannot be opened, or gives no frame.
        """
        need("V4L2")
        capture = opened(source.camera.place, cv2.CAP_V4L2)
        if source.size is not None:
            capture.set(
                cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*"MJPG")
            )  # raw pictures of that size may not fit USB
            capture.set(cv2.CAP_PROP_FRAME_WIDTH, source.size[0])
            capture.set(cv2.CAP_PROP_FRAME_HEIGHT, source.size[1])
        super().__init__(capture, "v4l2", source)


def _one_thread() -> tuple[int, ...]:
    """One stream, one core: more threads would take those of other streams. Older builds cannot be told."""
    threads = getattr(cv2, "CAP_PROP_N_THREADS", None)
    return () if threads is None else (threads, 1)


def _timeout(scheme: str) -> dict[str, str]:
    found = re.search(r"avformat:\s+YES \((\d+)", cv2.getBuildInformation())
    if found is None:
        raise CameraFault("OpenCV does not say which FFmpeg it has")
    name = "timeout" if scheme in WEB or int(found[1]) >= _TIMEOUT_SINCE else "stimeout"
    return {name: str(int(ANSWER_S * 1e6))}
