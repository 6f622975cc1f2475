"""Small pictures: thumbnails of bounded size, boxes and captions drawn on frames."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from jetq.errors import JetqError

#: Longer side of a thumbnail (pixels).
THUMB_PX = 320
#: Largest thumbnail (bytes): twelve of them stay far below the size limit of a result.
THUMB_MAX_BYTES = 24 * 1024
_FONT = cv2.FONT_HERSHEY_SIMPLEX


def thumbnail(picture: NDArray[np.uint8], *, longer_px: int = THUMB_PX, most_bytes: int = THUMB_MAX_BYTES) -> bytes:
    """Return the picture as a JPEG of at most so many bytes, or as few as it takes."""
    scale = min(1.0, longer_px / max(picture.shape[:2]))
    small = picture if scale == 1.0 else cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    jpeg = b""
    for quality in (80, 60, 40, 20):
        done, coded = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, quality])
        jpeg = coded.tobytes()
        if done and len(jpeg) <= most_bytes:
            break
    return jpeg


def decode_jpeg(jpeg: bytes) -> NDArray[np.uint8]:
    """Return a JPEG's picture, (h, w, 3) uint8, BGR.

    Raises:
        JetqError: the bytes are no picture.
    """
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise JetqError("a thumbnail could not be read; run the video again")
    return np.asarray(picture, np.uint8)


def draw_boxes(
    picture: NDArray[np.uint8],
    boxes: Sequence[Sequence[int]],
    *,
    scale: float = 1.0,
    color: tuple[int, int, int] = (0, 255, 0),
    line_px: int = 2,
) -> None:
    """Draw boxes (x, y, w, h, times ``scale``) onto the picture."""
    for x, y, w, h in boxes:
        start = (round(x * scale), round(y * scale))
        end = (round((x + w) * scale) - 1, round((y + h) * scale) - 1)
        cv2.rectangle(picture, start, end, color, line_px)


def write_text(
    picture: NDArray[np.uint8],
    text: str,
    at: tuple[int, int],
    *,
    size: float = 0.42,
    color: tuple[int, int, int] = (230, 230, 230),
) -> None:
    """Write one line of text with its base line's left end at ``at`` (x, y)."""
    ascii_only = text.encode("ascii", "replace").decode("ascii")  # the built-in font has no other letters
    cv2.putText(picture, ascii_only, at, _FONT, size, color, 1, cv2.LINE_AA)


def text_width(text: str, size: float = 0.42) -> int:
    """Return how wide a line of text is, in pixels."""
    return int(cv2.getTextSize(text, _FONT, size, 1)[0][0])
