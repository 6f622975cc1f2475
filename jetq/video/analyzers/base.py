"""What an analyzer is: a small class that looks at one frame after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

#: (x, y, width, height) in pixels of the frame that was given.
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Result:
    """What an analyzer saw in one frame."""

    score: float  # 0..1, how much there is to see; 0: nothing
    boxes: tuple[Box, ...] = ()
    values: dict[str, float] = field(default_factory=dict)  # further numbers, by name
    jpeg: bytes | None = None  # a small picture worth keeping
    labels: tuple[str, ...] = ()  # what is in each box; without boxes: in the frame, the most certain first
    scores: tuple[float, ...] = ()  # how certain each label is, 0..1

    @property
    def named(self) -> dict[str, Any]:
        """The further numbers by name, and the labels where there are some: plain values."""
        if not self.labels:
            return dict(self.values)
        return self.values | {"labels": list(self.labels), "scores": list(self.scores)}


@runtime_checkable
class Analyzer(Protocol):
    """The shape of an analyzer; no base class is needed.

    Two optional class or instance attributes: ``every`` (it is given every n-th frame only, of the clip or of those
    that a live stream looks at; default 1) and ``warmup`` (frames it must have seen before its results count; default
    0: each frame stands alone). ``warmup`` is for files, where chunks begin in the middle: a live stream has a first
    frame, and reports from there on.

    What any of the methods raises in a live stream counts against the analyzer; too often, and the stream has failed.
    """

    def start(self) -> None:
        """Get ready for the first frame."""
        ...

    def frame(self, picture: NDArray[np.uint8], t_s: float) -> Result | None:
        """Look at one frame: (h, w, 3) uint8, BGR, ``t_s`` seconds into the clip (live: since the first frame).

        Returns:
            What it saw; None: nothing that is worth a line.
        """
        ...

    def stop(self) -> None:
        """No frame follows."""
        ...
