"""Analyse one chunk: the body of the task ``video.analyze``."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cv2

from jetq.video import served
from jetq.video.analyzers import load
from jetq.video.analyzers.base import Analyzer, Result
from jetq.video.analyzers.look import look
from jetq.video.chunks import Chunk
from jetq.video.pictures import thumbnail
from jetq.video.place import Place
from jetq.video.source import Frame, Reader

#: Pictures that a chunk returns where its analyzer keeps none: the best of so many equal parts.
SHOTS_PER_CHUNK = 2
#: Bytes of JPEG that one chunk may return; over that every second one goes.
MAX_JPEG_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Shot:
    """A small picture of one frame."""

    frame: int
    t_s: float
    score: float
    boxes: tuple[tuple[int, ...], ...]
    width: int  # of the frame, not of the JPEG: what the boxes refer to
    height: int
    jpeg: bytes

    def as_json(self) -> dict[str, Any]:
        """Return the shot as plain values, the JPEG in base 64."""
        return {
            "frame": self.frame,
            "t_s": self.t_s,
            "score": self.score,
            "boxes": [list(box) for box in self.boxes],
            "width": self.width,
            "height": self.height,
            "jpeg": base64.b64encode(self.jpeg).decode("ascii"),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Shot:
        """Return the shot that ``as_json`` wrote."""
        boxes = tuple(tuple(box) for box in row["boxes"])
        return cls(**{**row, "boxes": boxes, "jpeg": base64.b64decode(row["jpeg"])})


@dataclass(slots=True)
class _Findings:
    """What was found so far in a chunk."""

    chunk: Chunk
    frames: list[list[Any]] = field(default_factory=list)
    shots: list[Shot] = field(default_factory=list)
    best: dict[int, tuple[Frame, Result]] = field(default_factory=dict)  # part of the chunk -> highest score

    def add(self, frame: Frame, result: Result) -> None:
        boxes = [list(box) for box in result.boxes]
        self.frames.append([frame.index, frame.t_s, result.score, boxes, result.named])
        if result.jpeg is not None:
            self.shots.append(_shot(frame, result, result.jpeg))
        part = min((frame.index - self.chunk.first_frame) * SHOTS_PER_CHUNK // self.chunk.n_frames, SHOTS_PER_CHUNK - 1)
        if part not in self.best or result.score > self.best[part][1].score:
            self.best[part] = (frame, result)

    def kept(self) -> list[Shot]:
        """Return the analyzer's own pictures, thinned to the limit; else the frames of the highest scores."""
        shots = self.shots
        while sum(len(shot.jpeg) for shot in shots) > MAX_JPEG_BYTES and len(shots) > 1:
            shots = shots[::2]
        return shots or [_shot(frame, result, thumbnail(frame.picture())) for frame, result in self.best.values()]


def analyze_chunk(
    place: Mapping[str, Any],
    chunk: Mapping[str, Any],
    analyzer: str = "motion",
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Decode one chunk, feed it to an analyzer and return what it found, as plain values.

    Args:
        place: a ``Place`` as JSON: where the file is.
        chunk: a ``Chunk`` as JSON.
        analyzer: built-in name or ``module:Class``.
        options: keyword arguments of the analyzer.

    Returns:
        ``frames`` (rows of frame number, seconds, score, boxes, values; frames without a report have none), ``shots``,
        ``kept`` (the analyzer chose the shots), ``n_frames`` (frames the chunk gave), ``decoded`` (dropped ones
        included), ``damaged`` (packets), ``took_s``.

    Raises:
        UsageError: no such analyzer, or it returned what is no result.
        VideoUnreadable: the file is not there, or reading it broke off.
    """
    cv2.setNumThreads(1)  # one slot, one core; and OpenCV's thread pool does not survive a fork
    started_s = time.perf_counter()
    piece, source = Chunk(**chunk), Place(**place)
    looker = load.make(analyzer, served.here(analyzer, options))
    location = source.locate()
    found = _attempt(location, source.name, piece, looker)
    if found["n_frames"] < piece.n_frames and location == source.url:
        # FFmpeg takes a connection that broke for the end of the file. A damaged file gives the same once more.
        found = _attempt(location, source.name, piece, looker)
    return {**found, "took_s": round(time.perf_counter() - started_s, 4)}


def _attempt(location: str, name: str, chunk: Chunk, looker: Analyzer) -> dict[str, Any]:
    """Read and analyse the chunk once."""
    with Reader(location, label=name) as reader:
        looker.start()
        try:
            findings, n_frames = _look(reader, chunk, looker)
        finally:
            looker.stop()
        return {
            "chunk": chunk.index,
            "frames": findings.frames,
            "shots": [shot.as_json() for shot in findings.kept()],
            "kept": bool(findings.shots),
            "n_frames": n_frames,
            "decoded": reader.decoded,
            "damaged": reader.damaged,
        }


def _look(reader: Reader, chunk: Chunk, looker: Analyzer) -> tuple[_Findings, int]:
    """Feed the warm-up without keeping a result, then the chunk's own frames."""
    every = load.appetite(looker).every
    findings = _Findings(chunk)
    n_frames = 0
    for frame in reader.frames(chunk):
        own = frame.index >= chunk.first_frame
        n_frames += own
        if frame.index % every:
            continue
        result = look(looker, frame.picture(), frame.t_s)
        if own and result is not None:
            findings.add(frame, result)
    return findings, n_frames


def _shot(frame: Frame, result: Result, jpeg: bytes) -> Shot:
    decoded = frame.decoded
    return Shot(frame.index, frame.t_s, result.score, result.boxes, decoded.width, decoded.height, jpeg)
