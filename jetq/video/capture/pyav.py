"""Cameras by PyAV: time-outs that hold, reasons in words, and pictures that are made only where somebody looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import av
import av.error
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from jetq.errors import CameraFault
from jetq.video.capture.addresses import ANSWER_S, WEB, ffmpeg_options, plain, usable_fps
from jetq.video.capture.base import Described, Grabbed, Picture, Source
from jetq.video.source import TEXT_CODECS, films

#: A first picture may need the next key frame, which some cameras send each 10 s (s).
FIRST_S = 15.0
#: Our names of codecs.
_NAMES = {"hevc": "h265"}


class PyavCapture:
    """A network or USB camera."""

    def __init__(self, source: Source) -> None:
        """Open it, and wait for its first frame.

        Raises:
            CameraFault: it cannot be opened, or gives no frame.
        """
        self._patience_s = ANSWER_S if source.camera.scheme in WEB else FIRST_S
        try:
            self._container = _opened(source)
            self._stream = film_of(self._container)
        except (av.error.FFmpegError, OSError, ValueError) as exc:
            raise CameraFault(reason(exc)) from exc
        self._decoded = self._frames()
        self._pictures = Pictures()
        self._first: tuple[float, VideoFrame] | None = None
        try:
            self._first = self._next()
        except CameraFault:
            self._container.close()
            raise
        fps = None if source.camera.scheme in WEB else self._stream.average_rate  # there it is a guess
        self.described = described(self._stream, self._first[1], usable_fps(None if fps is None else float(fps)))
        self._patience_s = source.stall_s

    def grab(self, *, wanted: Callable[[], bool]) -> Grabbed | None:
        """Wait for the next frame.

        Raises:
            CameraFault: no frame comes any more.
        """
        (at_s, frame), self._first = self._first or self._next(), None
        return Grabbed(at_s, self._pictures.of(frame))

    def close(self) -> None:
        """Let go of the camera."""
        self._container.close()

    def _next(self) -> tuple[float, VideoFrame]:
        try:
            frame = next(self._decoded, None)
        except (av.error.FFmpegError, OSError) as exc:
            raise CameraFault(reason(exc)) from exc
        if frame is None:
            raise CameraFault("it has ended the stream")
        return time.monotonic(), frame

    def _frames(self) -> Iterator[VideoFrame]:
        """Give frames; what cannot be decoded is left out, as long as something else comes."""
        last_s = time.monotonic()
        for packet in self._container.demux(self._stream):
            try:
                frames = packet.decode()
            except av.error.InvalidDataError:
                frames = []
            for frame in frames:
                yield frame
                last_s = time.monotonic()
            if time.monotonic() - last_s > self._patience_s:
                raise CameraFault(f"it sends, but nothing that can be decoded for {self._patience_s:g} s")


class Pictures:
    """Makes pictures of decoded frames, whichever thread asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the converter is made once, and is no two threads' at once
        self._converter = VideoReformatter()

    def of(self, frame: VideoFrame) -> Callable[[], Picture]:
        """Return what makes the picture of a frame."""
        return lambda: self._picture(frame)

    def _picture(self, frame: VideoFrame) -> Picture:
        with self._lock:
            converted = self._converter.reformat(frame, format="bgr24", threads=1)
        return cast(Picture, converted.to_ndarray())


def film_of(container: InputContainer) -> VideoStream:
    """Return the video of what was opened, to be decoded by one thread.

    Raises:
        CameraFault: there is none (hopeless).
    """
    found = films(container)
    if not found and container.streams.audio:
        raise CameraFault("it holds sound only, no video", hopeless=True)
    if not found or found[0].codec_context is None or found[0].codec_context.name in TEXT_CODECS:
        raise CameraFault("there is no video in it", hopeless=True)
    found[0].thread_type = "NONE"  # one stream, one core: more threads would take those of other streams
    return found[0]


def described(stream: VideoStream, first: VideoFrame, fps: float | None) -> Described:
    """Return what is known once the first frame is there."""
    name = stream.codec_context.name
    return Described("pyav", first.width, first.height, fps, _NAMES.get(name, name))


def reason(exc: Exception) -> str:
    """Return why FFmpeg failed, in words and without an address."""
    if isinstance(exc, av.error.ExitError):
        return "it is silent: its time is up"
    if isinstance(exc, av.error.InvalidDataError):
        return "what it sends is no video, or damaged"
    said = getattr(exc, "strerror", None) or type(exc).__name__
    return str(said)


def _opened(source: Source) -> InputContainer:
    limits_s = (ANSWER_S, max(1.0, source.stall_s * 0.8))  # before the watchdog, so that there is a reason
    if source.camera.scheme != "v4l2":
        return av.open(plain(source.address), options=ffmpeg_options(source), timeout=limits_s)
    size = {} if source.size is None else {"video_size": "{}x{}".format(*source.size)}
    return av.open(source.camera.place, format="v4l2", options=size, timeout=limits_s)
