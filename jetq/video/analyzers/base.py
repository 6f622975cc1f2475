"""What an analyzer is: a small class that looks at one frame after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class Analyzer(Protocol):
    """The shape of an analyzer; no base class is needed.

    Two optional class or instance attributes: ``warmup`` (frames it must have seen before its results count; default
    0: each frame stands alone) and ``every`` (it is given every n-th frame of the clip only; default 1).
    """

    def start(self) -> None:
        """Get ready for the first frame."""
        ...

    def frame(self, picture: NDArray[np.uint8], t_s: float) -> Result:
        """Look at one frame: (h, w, 3) uint8, BGR, ``t_s`` seconds into the clip."""
        ...

    def stop(self) -> None:
        """No frame follows."""
        ...
