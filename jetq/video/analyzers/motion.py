"""Motion: what differs from the background that the last frames make up."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.video.analyzers.base import Box, Result

#: At most this many boxes per frame, the largest ones: a picture full of noise must not make a large result.
MAX_BOXES = 16
#: Mean change of all pixels from one frame to the next (grey levels, 0..255) above which the scene was cut. Real cuts
#: showed 52 and more, the wildest pan 21.
_CUT_LEVELS = 40.0
#: Share of the last ``history`` frames that what is called background was seen in. What stands still for longer than
#: half a history becomes background; with OpenCV's 0.9 that would be a tenth, and slow things would vanish.
_BACKGROUND_RATIO = 0.6
#: Frames until the background has settled; before that the whole picture seems to move.
_SETTLE = 2


class Motion:
    """Find what moves, with MOG2 on a half-size picture. The score is the moving share of the picture.

    After a cut the background is learned anew: a new scene is no motion.
    """

    def __init__(
        self, *, history: int = 50, threshold: float = 25.0, min_area: float = 0.002, warmup: int = 100
    ) -> None:
        """Choose how it sees.

        Args:
            history: frames that the background is learned from.
            threshold: squared distance from the background, in variances, above which a pixel moves.
            min_area: smallest box, as share of the picture (0..1).
            warmup: frames it sees before the first result that counts.
        """
        if history < 1 or threshold <= 0 or not 0 <= min_area <= 1:
            raise UsageError("motion: history must be 1 or more, threshold above 0 and min_area from 0 to 1")
        self.warmup = warmup
        self._history, self._threshold, self._min_area = history, threshold, min_area
        self._kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
        self._seen = 0

    def start(self) -> None:
        """Forget the background."""
        self._seen = 0
        self._last: cv2.typing.MatLike | None = None
        self._mog2 = cv2.createBackgroundSubtractorMOG2(self._history, self._threshold, False)
        self._mog2.setBackgroundRatio(_BACKGROUND_RATIO)

    def frame(self, picture: NDArray[np.uint8], t_s: float) -> Result:
        """Return the moving share of the picture and boxes around what moves, largest first."""
        half = cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        if self._last is not None and self._cut(half, self._last):
            self.start()
        self._last = half
        # A fixed rate: the default one depends on how many frames were seen, so no warm-up would ever be enough.
        mask = self._mog2.apply(half, learningRate=1.0 / min(self._seen + 1, self._history))
        self._seen += 1
        if self._seen <= _SETTLE:
            return Result(0.0)
        mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, self._kernel)
        score = cv2.countNonZero(mask) / mask.size
        return Result(round(score, 6), self._boxes(cv2.dilate(mask, self._kernel, iterations=2)))

    def stop(self) -> None:
        """Nothing is held."""

    def _cut(self, picture: cv2.typing.MatLike, last: cv2.typing.MatLike) -> bool:
        return picture.shape != last.shape or cv2.norm(picture, last, cv2.NORM_L1) > _CUT_LEVELS * picture.size

    def _boxes(self, mask: cv2.typing.MatLike) -> tuple[Box, ...]:
        count, _, stats, _ = cv2.connectedComponentsWithStats(mask)
        least = max(1.0, self._min_area * mask.size)
        found = [tuple(int(v) for v in stats[n]) for n in range(1, count) if stats[n][cv2.CC_STAT_AREA] >= least]
        found.sort(key=lambda box: (-box[4], box))
        return tuple((x * 2, y * 2, w * 2, h * 2) for x, y, w, h, _ in found[:MAX_BOXES])
