"""Where results go: JSON lines, or a film with the boxes drawn in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import av
import av.error
import numpy as np
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


def as_line(row: Sequence[Any]) -> dict[str, Any]:
    """Return one row of a chunk's ``frames`` as the object that a line of the output holds."""
    frame, time_s, score, boxes, values = row
    return {"frame": frame, "time_s": time_s, "score": score, "boxes": boxes, **values}


def write_lines(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write one JSON object a line: frame, time_s, score, boxes and what else the analyzer has said."""
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(as_line(row), separators=(",", ":"), allow_nan=False) + "\n" for row in rows)


class Film:
    """An MP4 in the making. Use it in a ``with`` block."""

    def __init__(self, path: Path, *, width: int, height: int, fps: float) -> None:
        """Begin a film; odd sizes lose their last row or column (H.264 knows none)."""
        self._width, self._height = max(width - width % 2, 2), max(height - height % 2, 2)
        self._container = av.open(str(path), "w", format="mp4")
        codec, options = _codec()
        rate = Fraction(fps).limit_denominator(1001)
        self._stream = cast(VideoStream, self._container.add_stream(codec, rate=rate, options=options))
        self._stream.width, self._stream.height, self._stream.pix_fmt = self._width, self._height, "yuv420p"
        self._stream.codec_context.time_base = Fraction(1, _TICKS)

    def __enter__(self) -> Film:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._container.mux(self._stream.encode(None))
        self._container.close()

    def write(self, picture: NDArray[np.uint8], t_s: float) -> None:
        """Add a frame, (h, w, 3) uint8, BGR, shown at ``t_s`` seconds."""
        cut = np.ascontiguousarray(picture[: self._height, : self._width])
        frame = av.VideoFrame.from_ndarray(cut, format="bgr24")
        frame.pts, frame.time_base = round(t_s * _TICKS), Fraction(1, _TICKS)
        self._container.mux(self._stream.encode(frame))


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


def _codec() -> tuple[str, dict[str, str]]:
    for name, options in _CODECS.items():
        if name in av.codecs_available:
            return name, dict(options)
    raise JetqError("this PyAV can encode neither H.264 nor MPEG-4; leave --annotate out")
