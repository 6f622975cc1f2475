"""Films that we write: MP4, whole at their end, or readable at every moment of their making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import av
import av.error
import numpy as np
from av.container import OutputContainer
from av.video.frame import PictureType
from av.video.stream import VideoStream
from numpy.typing import NDArray

from jetq.errors import JetqError
from jetq.video.chunks import whole
from jetq.video.pictures import draw_boxes, write_text
from jetq.video.source import Clip, Reader

#: Time stamps of a film we write, per second: fine enough for every frame rate.
_TICKS = 90_000
#: What to encode with, the best that this PyAV has first.
_CODECS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "veryfast", "crf": "23"},
    "libopenh264": {},
    "mpeg4": {"qscale": "4"},
}
#: A film of what happens now is made beside an analyzer: one thread, and no frame is kept back to look ahead.
_LIVE: dict[str, dict[str, str]] = {
    "libx264": {"preset": "superfast", "tune": "zerolatency", "crf": "26", "threads": "1"},
    "libopenh264": {"threads": "1"},
    "mpeg4": {"qscale": "6", "threads": "1"},
}
#: What a film of now gives at once (s): who is killed loses no more of it.
FRAGMENT_S = 1.0
#: A player can begin at each of these (s).
_KEY_S = 4.0


class Film:
    """An MP4 in the making. Use it in a ``with`` block."""

    def __init__(self, path: Path, *, width: int, height: int, fps: float) -> None:
        """Begin a film; odd sizes lose their last row or column (H.264 knows none)."""
        self._container = av.open(str(path), "w", format="mp4")
        self._stream = _stream(self._container, _CODECS, width, height, fps)

    def __enter__(self) -> Film:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._container.mux(self._stream.encode(None))
        self._container.close()

    def write(self, picture: NDArray[np.uint8], t_s: float) -> None:
        """Add a frame, (h, w, 3) uint8, BGR, shown at ``t_s`` seconds."""
        self._container.mux(self._stream.encode(_frame(self._stream, picture, round(t_s * _TICKS))))


class LiveFilm:
    """An MP4 of what happens now, in memory: it gives whole fragments, and what was given so far can be played."""

    def __init__(self, *, width: int, height: int, fps: float) -> None:
        """Begin a film; odd sizes lose their last row or column. ``fps``: about; each frame has a time of its own."""
        self._out = _Out()
        #: flush_packets: what the muxer has written does not wait for more.
        options = {
            "movflags": "empty_moov+default_base_moof",
            "frag_duration": str(int(FRAGMENT_S * 1e6)),
            "flush_packets": "1",
        }
        self._container = av.open(self._out, "w", format="mp4", options=options)
        self._stream = _stream(self._container, _LIVE, width, height, fps)
        self._pts = -1
        self._key_pts = -_TICKS * _KEY_S

    def add(self, picture: NDArray[np.uint8], t_s: float) -> bytes:
        """Add a frame, shown at ``t_s`` seconds; return what is whole of the film and was not yet given.

        The first that it gives is the head with the first fragment: a film without a frame is none.
        """
        frame = _frame(self._stream, picture, max(round(t_s * _TICKS), self._pts + 1))
        self._pts = frame.pts or 0
        if self._pts - self._key_pts >= _KEY_S * _TICKS:
            frame.pict_type, self._key_pts = PictureType.I, self._pts
        self._container.mux(self._stream.encode(frame))
        return self._out.take() if self._out.fragments else b""

    def end(self) -> bytes:
        """Return the rest."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._out.take()


class _Out:
    """What a muxer has written, and nobody has taken."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.fragments = False  # whether there was one yet

    def write(self, part: bytes) -> int:
        self._held += part
        self.fragments = self.fragments or part[4:8] == b"moof"
        return len(part)

    def take(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken


def annotate(clip: Clip, rows: Sequence[Sequence[Any]], path: Path) -> None:
    """Write the clip with the boxes of ``rows`` drawn in; frames without a row keep the boxes of the last one.

    Raises:
        JetqError: the film cannot be written.
    """
    found: Mapping[int, Sequence[Any]] = {row[0]: row for row in rows}
    last: Sequence[Any] | None = None
    try:
        with (
            Reader(str(clip.path)) as reader,
            Film(path, width=clip.width, height=clip.height, fps=clip.fps) as film,
        ):
            for frame in reader.frames(whole(clip.index)):
                picture = np.ascontiguousarray(frame.picture())
                last = found.get(frame.index, last)
                if last is not None:
                    draw_boxes(picture, last[3])
                    write_text(picture, f"{frame.t_s:.2f} s  {last[2]:.3f}", (6, 16), color=(0, 255, 255))
                film.write(picture, frame.t_s)
    except av.error.FFmpegError as exc:
        raise JetqError(f"{path.name} could not be written ({exc.strerror}); try again without --annotate") from exc


def _stream(
    container: OutputContainer, codecs: Mapping[str, dict[str, str]], width: int, height: int, fps: float
) -> VideoStream:
    """Add the stream of a film, with the best codec that this PyAV has."""
    name = next((name for name in codecs if name in av.codecs_available), "")
    if not name:
        raise JetqError("this PyAV can encode neither H.264 nor MPEG-4; leave --annotate and the sink mp4 out")
    rate = Fraction(fps).limit_denominator(1001)
    stream = cast(VideoStream, container.add_stream(name, rate=rate, options=dict(codecs[name])))
    stream.width, stream.height, stream.pix_fmt = max(width - width % 2, 2), max(height - height % 2, 2), "yuv420p"
    stream.codec_context.time_base = Fraction(1, _TICKS)
    return stream


def _frame(stream: VideoStream, picture: NDArray[np.uint8], pts: int) -> av.VideoFrame:
    cut = np.ascontiguousarray(picture[: stream.height, : stream.width])
    frame = av.VideoFrame.from_ndarray(cut, format="bgr24")
    frame.pts, frame.time_base = pts, Fraction(1, _TICKS)
    return frame
