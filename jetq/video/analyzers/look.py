"""Ask an analyzer about one frame, and take nothing for its answer that is none."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.video.analyzers.base import Analyzer, Box, Result

#: More boxes, or more numbers, of one frame are a mistake: each crosses the wire and is kept.
MOST_BOXES, MOST_VALUES = 1000, 1000


def look(analyzer: Analyzer, picture: NDArray[np.uint8], t_s: float) -> Result | None:
    """Return what an analyzer saw in one frame, as plain Python values; None: nothing to report.

    Raises:
        UsageError: what it returned is no `Result`, or holds something that is not what it should be. What the analyzer
            itself raises passes through.
    """
    result: Any = analyzer.frame(picture, t_s)
    if result is None:
        return None
    name = type(analyzer).__name__
    if not isinstance(result, Result):
        raise UsageError(f"{name}.frame() must return a jetq.video.analyzers.base.Result or None, not {_shown(result)}")
    try:
        return _checked(result)
    except _Wrong as exc:
        raise UsageError(f"{name}.frame() returned a Result whose {exc}") from None


class _Wrong(ValueError):
    """What is wrong with a result."""


def _checked(result: Result) -> Result:
    if not isinstance(result.values, dict) or len(result.values) > MOST_VALUES:
        raise _Wrong(f"values must be a dict of up to {MOST_VALUES} numbers by name, not {_shown(result.values)}")
    if not all(isinstance(name, str) for name in result.values):
        raise _Wrong(f"values must have names of text, not {_shown(list(result.values))}")
    if result.jpeg is not None and not isinstance(result.jpeg, bytes):
        raise _Wrong(f"jpeg must be bytes or None, not {_shown(result.jpeg)}")
    labels = _several("labels", result.labels)
    if not all(isinstance(label, str) for label in labels):
        raise _Wrong(f"labels must be words, not {_shown(result.labels)}")
    return Result(
        score=_number("score", result.score),
        boxes=tuple(_box(box) for box in _several("boxes", result.boxes)),
        values={name: _number(f"value {name!r}", value) for name, value in result.values.items()},
        jpeg=result.jpeg,
        labels=labels,
        scores=tuple(_number("scores", score) for score in _several("scores", result.scores)),
    )


def _several(what: str, items: object) -> tuple[Any, ...]:
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise _Wrong(f"{what} must be a tuple, not {_shown(items)}")
    found = tuple(items)
    if len(found) > MOST_BOXES:
        raise _Wrong(f"{what} are {len(found)}; {MOST_BOXES} is the most")
    return found


def _number(what: str, value: object) -> float:
    """Return a number as Python's own; NaN and infinity are no JSON."""
    if isinstance(value, int | np.integer):
        return int(value)
    if not isinstance(value, float | np.floating) or not math.isfinite(value):
        raise _Wrong(f"{what} must be a finite number, not {_shown(value)}")
    return float(value)


def _box(box: object) -> Box:
    """Return four whole numbers; pixels have no halves."""
    try:
        x, y, width, height = (round(_number("boxes", side)) for side in box)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise _Wrong(f"boxes must be (x, y, width, height) in pixels, not {_shown(box)}") from None
    return x, y, width, height


def _shown(value: object) -> str:
    return f"{value!r:.80} ({type(value).__name__})"
