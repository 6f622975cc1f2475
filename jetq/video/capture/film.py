"""A file as a camera: its frames come as fast as they were filmed, once or for ever."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator

import av
import av.error
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from jetq.errors import CameraFault
from jetq.video.capture.addresses import usable_fps
from jetq.video.capture.base import Described, Grabbed, Source
from jetq.video.capture.pyav import Pictures, described, film_of, reason
from jetq.video.source import DEFAULT_FPS, rate_of

#: Who is later than this (s) does not hurry after it: the machine is too slow, and the file plays slower.
_LATE_S = 1.0
#: A pause in a film that is longer than this share of what counts as a stall is cut short: it is not one.
_LONGEST_PAUSE = 0.5
#: What lists other files or addresses is no film: it would lead past what a node may open.
_LISTS = frozenset({"hls", "concat", "dash", "sdp", "imf", "image2", "rtsp", "rtp"})


class FilmCapture:
    """A file."""

    def __init__(self, source: Source) -> None:
        """Open it, and decode its first frame.

        Raises:
            CameraFault: it is not there, or may not be read; hopeless where there is no video in it.
        """
        self._path, self._loop = source.camera.place, source.loop
        self._container, self._stream = _opened(self._path)
        self._fps = usable_fps(rate_of(self._stream))
        self._pictures = Pictures()
        self._pace = Pace(1.0 / (self._fps or DEFAULT_FPS), source.stall_s * _LONGEST_PAUSE)
        self._shown = self._passes()
        self._first = next(self._shown, None)
        self.described = self._described()

    def grab(self, *, wanted: Callable[[], bool]) -> Grabbed | None:
        """Wait until the next frame is due; None: the file is over.

        Raises:
            CameraFault: it cannot be read any more.
        """
        frame, self._first = self._first or next(self._shown, None), None
        if frame is None:
            return None
        film_s = None if frame.pts is None or frame.time_base is None else float(frame.pts * frame.time_base)
        due_s = self._pace.due_s(film_s, time.monotonic())
        time.sleep(max(0.0, due_s - time.monotonic()))
        return Grabbed(time.monotonic(), self._pictures.of(frame))

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def _described(self) -> Described:
        assert self._first is not None  # a pass without a frame raises
        return described(self._stream, self._first, self._fps)

    def _passes(self) -> Iterator[VideoFrame]:
        """Give the frames of the file, and again where it loops: opened anew, as not every file can be rewound."""
        while True:
            frames = 0
            for frame in _frames(self._container, self._stream):
                frames += 1
                yield frame
            if not frames:
                self._container.close()
                raise CameraFault("not one frame of it can be decoded; check that it plays", hopeless=True)
            if not self._loop:
                return
            self._container.close()
            self._container, self._stream = _opened(self._path)
            self._pace.again()


class Pace:
    """When the frames of a film are due. Times of the film may begin anywhere, jump, or be missing."""

    def __init__(self, frame_s: float, longest_s: float) -> None:
        """Begin.

        Args:
            frame_s: from one frame to the next where the film does not say.
            longest_s: no pause is longer.
        """
        self._frame_s, self._longest_s = frame_s, longest_s
        self._due_s: float | None = None
        self._film_s: float | None = None  # of the last frame

    def again(self) -> None:
        """The film begins anew: its times do."""
        self._film_s = None

    def due_s(self, film_s: float | None, now_s: float) -> float:
        """Return when a frame that stands at ``film_s`` in the film is due."""
        step_s = self._frame_s
        if film_s is not None and self._film_s is not None:
            step_s = film_s - self._film_s
        self._film_s = film_s
        step_s = min(step_s, self._longest_s) if step_s >= 0 else self._frame_s
        if self._due_s is None or now_s > self._due_s + step_s + _LATE_S:
            self._due_s = now_s
        else:
            self._due_s += step_s
        return self._due_s


def _opened(path: str) -> tuple[InputContainer, VideoStream]:
    _check(path)
    try:
        # No other protocol: what a file names inside of it is not opened.
        container = av.open(path, options={"protocol_whitelist": "file"})
    except (av.error.InvalidDataError, ValueError) as exc:
        raise CameraFault("it is no video, or damaged; check that it plays", hopeless=True) from exc
    except (av.error.FFmpegError, OSError) as exc:
        raise CameraFault(f"it cannot be opened ({reason(exc)})") from exc
    try:
        if _LISTS & set(container.format.name.split(",")):
            raise CameraFault("it is a list of other files, no video", hopeless=True)
        return container, film_of(container)
    except CameraFault:
        container.close()
        raise


def _check(path: str) -> None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise CameraFault("there is no such file on this node (yet)") from exc
    except OSError as exc:
        raise CameraFault(f"it cannot be read on this node ({exc.strerror})") from exc
    if not stat.S_ISREG(found.st_mode):
        raise CameraFault("it is no file, but a folder or a device", hopeless=True)
    if not found.st_size:
        raise CameraFault("it is empty (0 bytes)", hopeless=True)


def _frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Give what can be decoded. A file that was cut off ends where it was."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except av.error.InvalidDataError:
            return
        except (av.error.FFmpegError, OSError) as exc:
            raise CameraFault(f"reading stopped ({reason(exc)})") from exc
        if packet is None:
            return
        try:
            yield from packet.decode()
        except av.error.InvalidDataError:
            continue
