"""Cut a clip into chunks. Pure: the same packets in, the same chunks out."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from jetq.errors import UsageError

#: A stretch without key frames is cut into at most this many chunks: each of them decodes it from its start, so the
#: decoding grows with the square of their number (8 chunks decode 4.5 times as much as one).
MAX_CUTS_PER_GOP = 8


@dataclass(frozen=True, slots=True)
class Index:
    """Where the frames of a clip are, in the order in which they are shown."""

    n_frames: int
    keys: tuple[int, ...]  # frame numbers of key frames, ascending; the first is 0
    pts: tuple[int, ...] | None = None  # of each frame, ascending; None: the file has no usable time stamps
    key_dts: tuple[int | None, ...] = ()  # decoding time stamp of each key frame, where the file gives one


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a clip: what to decode, what to feed, what to report."""

    index: int
    first_frame: int
    n_frames: int
    start_frame: int  # key frame that decoding starts from
    warmup: int = 0  # frames fed to the analyzer before ``first_frame`` without a result
    first_pts: int | None = None  # of the first frame that is fed; None: frames are counted from the file's start
    end_pts: int | None = None  # first one past the chunk; None: up to the end of the file
    start_pts: int | None = None  # of ``start_frame``; None: decode from the file's start
    start_dts: int | None = None
    origin_pts: int = 0  # of frame 0: time 0 s

    @property
    def lead_in(self) -> int:
        """Frames that are decoded and dropped."""
        return self.first_frame - self.warmup - self.start_frame

    def as_json(self) -> dict[str, Any]:
        """Return the chunk as plain values."""
        return asdict(self)


def plan(index: Index, *, chunk_frames: int, warmup: int = 0) -> list[Chunk]:
    """Cut at key frames, about ``chunk_frames`` frames apart; where they are too few, at any frame.

    Args:
        index: the clip's frames.
        chunk_frames: how long a chunk should be.
        warmup: frames that the analyzer wants to see before a chunk's first one.

    Raises:
        UsageError: ``chunk_frames`` is below 1, or ``warmup`` is negative.
    """
    if chunk_frames < 1 or warmup < 0:
        raise UsageError("a chunk needs at least 1 frame and a warm-up of 0 frames or more")
    starts = _starts(index, chunk_frames)
    ends = [*starts[1:], index.n_frames]
    return [
        _chunk(index, number, first, end, min(warmup, first))
        for number, (first, end) in enumerate(zip(starts, ends, strict=True))
    ]


def whole(index: Index) -> Chunk:
    """Return the clip as one chunk."""
    return _chunk(index, 0, 0, index.n_frames, 0)


def _starts(index: Index, chunk_frames: int) -> list[int]:
    """Return the first frame of each chunk."""
    starts: list[int] = []
    for first, end in _stretches(index.keys, index.n_frames, chunk_frames):
        parts = min(max(1, round((end - first) / chunk_frames)), MAX_CUTS_PER_GOP)
        starts += [first + math.ceil((end - first) * part / parts) for part in range(parts)]
    return starts


def _stretches(keys: Sequence[int], n_frames: int, chunk_frames: int) -> list[tuple[int, int]]:
    """Join neighbours until each stretch between two key frames comes nearest to ``chunk_frames``."""
    out: list[tuple[int, int]] = []
    first = 0
    bounds = [*keys[1:], n_frames]
    for key, after in pairwise(bounds):
        if chunk_frames - (key - first) <= (after - first) - chunk_frames:
            out.append((first, key))
            first = key
    return [*out, (first, n_frames)]


def _chunk(index: Index, number: int, first: int, end: int, warmup: int) -> Chunk:
    fed = first - warmup
    if index.pts is None:
        return Chunk(number, first, end - first, 0, warmup)
    at = bisect_right(index.keys, fed) - 1
    return Chunk(
        index=number,
        first_frame=first,
        n_frames=end - first,
        start_frame=index.keys[at],
        warmup=warmup,
        first_pts=index.pts[fed],
        end_pts=index.pts[end] if end < index.n_frames else None,
        start_pts=index.pts[index.keys[at]] if at else None,
        start_dts=index.key_dts[at] if at else None,
        origin_pts=index.pts[0],
    )
