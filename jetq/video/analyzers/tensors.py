"""Make a picture into what a model takes, and tell where in the picture its answer lies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.model.camera_uri import picture_size

LAYOUTS, COLOURS = ("nchw", "nhwc"), ("rgb", "bgr")
#: What fills the edges of a letterbox (grey level): what YOLO models were trained with.
_GREY = 114
#: Colours of a picture, or one for grey.
_CHANNELS = (1, 3)


@dataclass(frozen=True, slots=True)
class Fit:
    """Where a picture lies in the model's input."""

    across: float  # pixels of the input for one of the picture
    down: float
    left: int = 0
    top: int = 0

    def back(self, corners: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return boxes of the input, (n, 4) left, top, right, bottom, in pixels of the picture."""
        away = np.array([self.left, self.top, self.left, self.top], np.float32)
        size = np.array([self.across, self.down, self.across, self.down], np.float32)
        moved: NDArray[np.float32] = (corners - away) / size
        return moved


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a picture becomes an input: value = (pixel × scale - mean) ÷ std, for each colour."""

    width: int
    height: int
    channels: int
    layout: str
    dtype: type[np.generic]
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    colours: str
    letterbox: bool  # keep its shape, with grey edges; else it is stretched

    def make(self, picture: NDArray[np.uint8]) -> tuple[NDArray[Any], Fit]:
        """Return the input for a picture, (h, w, 3) uint8, BGR, and where the picture lies in it."""
        small, fit = self._fitted(picture)
        if self.channels == 1:
            small = np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), np.uint8)[..., np.newaxis]
        elif self.colours == "rgb":
            small = np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2RGB), np.uint8)
        values: NDArray[Any] = small
        if self.scale != 1.0 or any(self.mean) or set(self.std) != {1.0}:
            values = small.astype(np.float32) * np.float32(self.scale)
            if any(self.mean) or set(self.std) != {1.0}:
                values = (values - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
            if self.dtype is np.uint8:
                values = np.clip(np.rint(values), 0, 255)
        if self.layout == "nchw":
            values = values.transpose(2, 0, 1)
        return np.ascontiguousarray(values[np.newaxis], self.dtype), fit

    def _fitted(self, picture: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Fit]:
        height, width = picture.shape[:2]
        if not self.letterbox:
            small = cv2.resize(picture, (self.width, self.height), interpolation=cv2.INTER_LINEAR)
            return np.asarray(small, np.uint8), Fit(self.width / width, self.height / height)
        ratio = min(self.width / width, self.height / height)
        inner = (max(1, round(width * ratio)), max(1, round(height * ratio)))
        left, top = (self.width - inner[0]) // 2, (self.height - inner[1]) // 2
        canvas = np.full((self.height, self.width, 3), _GREY, np.uint8)
        small = cv2.resize(picture, inner, interpolation=cv2.INTER_LINEAR)
        canvas[top : top + inner[1], left : left + inner[0]] = small
        return canvas, Fit(inner[0] / width, inner[1] / height, left, top)


def recipe(
    shape: Sequence[int | None],
    dtype: type[np.generic],
    *,
    size: str = "",
    layout: str = "",
    scale: float | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    colours: str = "rgb",
    letterbox: bool = False,
) -> Recipe:
    """Return how pictures become inputs of a shape; what is not said is taken from the shape.

    Args:
        shape: four sides; None: any.
        size: WIDTHxHEIGHT; "": the model's own.
        scale: None: 1/255 for a model that computes with fractions, 1 for one of bytes.

    Raises:
        UsageError: the shape is no picture's, or leaves open what is not said.
    """
    sides = "x".join("?" if side is None else str(side) for side in shape)
    if layout not in ("", *LAYOUTS) or colours not in COLOURS:
        raise UsageError(f"onnx: layout is one of {', '.join(LAYOUTS)}, and colours one of {', '.join(COLOURS)}")
    if not layout:
        fits = [name for name, at in zip(LAYOUTS, (1, 3), strict=True) if shape[at] in _CHANNELS]
        if not fits:
            raise UsageError(f"onnx: a model's input of {sides} has no side of 3 colours; say where with layout=nchw")
        layout = fits[0]
    batch, channels, high, wide = shape if layout == "nchw" else (shape[0], shape[3], shape[1], shape[2])
    if batch not in (None, 1):
        raise UsageError(f"onnx: a model's input of {sides} takes {batch} pictures at once; export it for one")
    if channels not in (None, *_CHANNELS):
        raise UsageError(f"onnx: a model's input of {sides} has {channels} colours as {layout}, not 3 or 1")
    width, height = _sides(size, wide, high, sides)
    colour_count = channels or 3
    return Recipe(
        *(width, height, colour_count, layout, dtype),
        scale=_finite("scale", (1.0 if dtype is np.uint8 else 1 / 255) if scale is None else scale),
        mean=_each("mean", mean, colour_count),
        std=_each("std", std, colour_count),
        colours=colours,
        letterbox=letterbox,
    )


def _sides(size: str, wide: int | None, high: int | None, sides: str) -> tuple[int, int]:
    if not size:
        if wide is None or high is None:
            raise UsageError(f"onnx: a model's input of {sides} leaves its size open; say it with size=640x640")
        return wide, high
    width, height = picture_size(size)
    if width != (wide or width) or height != (high or height):
        raise UsageError(f"onnx: a model's input of {sides} takes no size {size}; leave size out")
    return width, height


def _finite(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise UsageError(f"onnx: {what} must be a number, not {value!r:.80}")
    return float(value)


def _each(what: str, value: object, count: int) -> tuple[float, ...]:
    """Return a number for each colour."""
    given = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(given) != count:
        raise UsageError(f"onnx: {what} must be one number, or one for each of {count} colours, not {value!r:.80}")
    numbers = tuple(_finite(what, one) for one in given)
    if what == "std" and 0.0 in numbers:
        raise UsageError("onnx: std divides, so it cannot be 0")
    return numbers
