"""A picture with what was seen drawn in."""

from __future__ import annotations

from datetime import datetime, timezone

import cv2
import numpy as np

from jetq.errors import JetqError
from jetq.video.capture.base import Picture
from jetq.video.live.sink import Seen
from jetq.video.pictures import draw_boxes, write_text

_YELLOW, _GREEN = (0, 255, 255), (0, 255, 0)


def annotated(seen: Seen, *, longer_px: int) -> Picture:
    """Return a picture of one's own, no larger than that, with boxes, labels, time (UTC) and score.

    Raises:
        JetqError: an analyzer gave boxes or a score that cannot be drawn.
    """
    picture = seen.picture()
    scale = min(1.0, longer_px / max(picture.shape[:2]))
    if scale < 1.0:
        drawn = np.asarray(cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)
    else:
        drawn = np.array(picture)
    at = datetime.fromtimestamp(seen.at_s, timezone.utc)
    try:
        draw_boxes(drawn, seen.result.boxes, scale=scale)
        for (x, y, *_), label in zip(seen.result.boxes, seen.result.labels, strict=False):
            write_text(drawn, label, (round(x * scale) + 2, round(y * scale) + 14), color=_GREEN)
        write_text(drawn, f"{at:%Y-%m-%d %H:%M:%S} UTC  {seen.result.score:.3f}", (6, 16), color=_YELLOW)
    except (TypeError, ValueError, OverflowError, AttributeError, cv2.error) as exc:
        raise JetqError(f"its analyzer gave boxes or a score that cannot be drawn ({exc})") from exc
    return drawn
