"""Snapshot: every n-th frame as a small JPEG, with its brightness and sharpness."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.video.analyzers.base import Result
from jetq.video.pictures import THUMB_PX, thumbnail

#: Variance of the Laplacian at which a picture counts as half sharp. Only ranks pictures of one clip.
_HALF_SHARP = 500.0


class Snapshot:
    """Keep every n-th frame. Each frame stands alone, so chunks give exactly what one pass gives."""

    warmup = 0

    def __init__(self, *, every: int = 25, longer_px: int = THUMB_PX) -> None:
        """Choose which frames to keep.

        Args:
            every: 1 keeps each frame.
            longer_px: longer side of the JPEG.
        """
        if every < 1 or not 16 <= longer_px <= 640:
            raise UsageError("snapshot: every must be 1 or more and longer_px from 16 to 640")
        self.every = every
        self._longer_px = longer_px

    def start(self) -> None:
        """Nothing to get ready."""

    def frame(self, picture: NDArray[np.uint8], t_s: float) -> Result:
        """Return the frame's sharpness as score (0..1), its brightness (0..1) and the JPEG."""
        grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
        variance = float(cv2.Laplacian(grey, cv2.CV_64F).var())
        values = {"brightness": round(float(grey.mean()) / 255.0, 6), "sharpness": round(variance, 3)}
        return Result(
            score=round(variance / (variance + _HALF_SHARP), 6),
            values=values,
            jpeg=thumbnail(picture, longer_px=self._longer_px),
        )

    def stop(self) -> None:
        """Nothing is held."""
