"""Ask an analyzer about one frame, and take nothing for its answer that is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.video.analyzers.base import Analyzer, Box, Result

#: More boxes, or more numbers, of one frame are a mistake: each crosses the wire and is kept.
MOST_BOXES, MOST_VALUES = 1000, 1000
#: Names and labels of one frame are words (characters of all of them); a text belongs into a file.
MOST_TEXT = 64 * 1024
#: Larger numbers are none that all readers of JSON have, and larger boxes lie in no picture.
_MOST_WHOLE, _MOST_PIXELS = 1 << 63, 1 << 24


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
    _check_text([*result.values, *labels])
    return Result(
        score=_number("score", result.score),
        boxes=tuple(_box(box) for box in _several("boxes", result.boxes)),
        values={name: _number(f"value {name!r}", value) for name, value in result.values.items()},
        jpeg=result.jpeg,
        labels=labels,
        scores=tuple(_number("scores", score) for score in _several("scores", result.scores)),
    )


def _check_text(words: Sequence[str]) -> None:
    if (size := sum(map(len, words))) > MOST_TEXT:
        raise _Wrong(f"names and labels have {size} characters; {MOST_TEXT} is the most")
    try:
        "".join(words).encode()
    except UnicodeEncodeError as exc:
        raise _Wrong(f"names and labels must be text, not {exc.object[exc.start : exc.end]!r:.80}") from None


def _several(what: str, items: object) -> tuple[Any, ...]:
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise _Wrong(f"{what} must be a tuple, not {_shown(items)}")
    found = tuple(items)
    if len(found) > MOST_BOXES:
        raise _Wrong(f"{what} are {len(found)}; {MOST_BOXES} is the most")
    return found


def _number(what: str, value: object) -> float:
    """Return a number as Python's own; NaN and infinity are no JSON."""
    if isinstance(value, int | np.integer) and abs(int(value)) < _MOST_WHOLE:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        raise _Wrong(f"{what} must be below 2**63, not one of {value.bit_length()} bits")
    if not isinstance(value, float | np.floating) or not math.isfinite(value):
        raise _Wrong(f"{what} must be a finite number, not {_shown(value)}")
    return float(value)


def _box(box: object) -> Box:
    """Return four whole numbers; pixels have no halves."""
    try:
        x, y, width, height = (round(_number("boxes", side)) for side in box)  # type: ignore[attr-defined]
        if max(map(abs, (x, y, width, height))) > _MOST_PIXELS:
            raise ValueError("too large")
    except (TypeError, ValueError):
        raise _Wrong(f"boxes must be (x, y, width, height) in pixels, not {_shown(box)}") from None
    return x, y, width, height


def _shown(value: object) -> str:
    return f"{value!r:.80} ({type(value).__name__})"
