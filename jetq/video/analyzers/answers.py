"""Read what a model says: which class a picture is of, or where things are in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.video.analyzers.base import Result
from jetq.video.analyzers.tensors import Fit

#: What the rows of a detector can be. ``v8``: cx, cy, w, h and a score for each class, [1, 4+C, N]; ``v5``: cx, cy, w,
#: h, that there is something, and a score for each class, [1, N, 5+C]; ``nms``: left, top, right, bottom, score and
#: class of what is left after the model's own suppression, [1, N, 6].
ROWS = ("v8", "v5", "nms")
#: Of one frame (boxes), the most certain first: a result stays small whatever a model finds.
MOST_BOXES = 100
#: So many candidates are compared with each other.
_MOST_CANDIDATES = 3000
#: A model that suppresses itself gives a few hundred rows at most; one that does not, over a thousand.
_MOST_FINAL = 1000
#: Probabilities add up to one, so exactly.
_ROUNDING = 0.01


@dataclass(frozen=True, slots=True)
class Found:
    """What a detector's rows hold: parallel arrays."""

    corners: NDArray[np.float32]  # (n, 4): left, top, right, bottom, in pixels of the input
    scores: NDArray[np.float32]  # (n,)
    classes: NDArray[np.int64]  # (n,)


def name_of(number: int, labels: Sequence[str]) -> str:
    """Return what a class is called: its number, where nobody gave it a name."""
    return labels[number] if 0 <= number < len(labels) else str(number)


def probabilities(answer: NDArray[Any]) -> NDArray[np.float64]:
    """Return how likely each class is. What is no distribution yet is made one (softmax; a single number: sigmoid)."""
    values = np.asarray(answer, np.float64).ravel()
    if values.size == 1:
        return values if 0.0 <= values[0] <= 1.0 else 1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0)))
    if values.min() >= 0.0 and abs(float(values.sum()) - 1.0) <= _ROUNDING:
        return values
    powers = np.exp(values - values.max())
    spread: NDArray[np.float64] = powers / powers.sum()
    return spread


def classified(answer: NDArray[Any], labels: Sequence[str], threshold: float) -> Result:
    """Return the likeliest class; its label only where it is likely enough."""
    likely = probabilities(answer)
    best = int(likely.argmax())
    score = round(float(likely[best]), 6)
    values = {"class": float(best)}
    if score < threshold:
        return Result(score, values=values)
    return Result(score, values=values, labels=(name_of(best, labels),), scores=(score,))


def check_classes(shape: Sequence[int], labels: Sequence[str]) -> None:
    """Refuse an output that is no list of classes, or labels that are not theirs.

    Raises:
        UsageError: one of that.
    """
    count = int(np.prod(shape))
    if not shape or count == 0 or max(shape) != count:
        raise UsageError(f"onnx: an output of {_sides(shape)} is no list of classes; another task may be meant")
    if labels and len(labels) != count:
        raise UsageError(f"onnx: the model knows {count} classes, and labels has {len(labels)} names")


def rows_of(shape: Sequence[int], labels: Sequence[str], rows: str = "") -> str:
    """Return what the rows of a detector's output are, one of ``ROWS``.

    Args:
        shape: of the output.
        labels: of all classes, or none.
        rows: what somebody says that they are; "": told from the shape.

    Raises:
        UsageError: the shape, or the number of labels, is not theirs.
    """
    if rows not in ("", *ROWS):
        raise UsageError(f"onnx: rows must be one of {', '.join(ROWS)}, not {rows!r:.40}")
    sides = _sides(shape)
    if len(shape) != 3 or shape[0] != 1:
        raise UsageError(f"onnx: an output of {sides} has no boxes; a detector gives 1x(4+C)xN, 1xNx(5+C) or 1xNx6")
    _, high, wide = shape
    if not rows:
        final = wide == 6 and high <= _MOST_FINAL and len(labels) != 1
        rows = "nms" if final else "v8" if high < wide else "v5"
    if rows == "nms" and wide != 6:
        raise UsageError(f"onnx: rows=nms has six columns, and the output is {sides}")
    count = None if rows == "nms" else high - 4 if rows == "v8" else wide - 5
    if count is not None and count < 1:
        raise UsageError(f"onnx: an output of {sides} has no classes as rows={rows}; say what they are with rows=")
    if labels and count is not None and len(labels) != count:
        raise UsageError(f"onnx: the model knows {count} classes (rows={rows}), and labels has {len(labels)} names")
    return rows


def read_rows(answer: NDArray[Any], rows: str, threshold: float) -> Found:
    """Return what a detector's output holds from a threshold on; rows with what is no number are left out."""
    table = np.asarray(answer[0], np.float32)
    if rows == "v8":
        table = table.T
    table = table[np.isfinite(table).all(axis=1)]
    if rows == "nms":
        sure = table[:, 4] >= threshold
        kept = table[sure]
        return Found(kept[:, :4], kept[:, 4], kept[:, 5].astype(np.int64))
    each = table[:, 4:] if rows == "v8" else table[:, 5:] * table[:, 4:5]
    best = each.max(axis=1)
    sure = best >= threshold
    centre, half = table[sure, :2], table[sure, 2:4] / 2
    corners = np.concatenate([centre - half, centre + half], axis=1)
    return Found(corners, best[sure], each[sure].argmax(axis=1))


def suppressed(found: Found, overlap: float) -> Found:
    """Return the best of those that lie upon each other and are of one class, the most certain first."""
    order = np.argsort(-found.scores, kind="stable")[:_MOST_CANDIDATES]
    corners, scores, classes = found.corners[order], found.scores[order], found.classes[order]
    if not order.size:
        return found
    # Classes apart from each other: no box of one reaches into another's.
    reach = float(np.abs(corners).max()) * 2 + 1
    sides = np.concatenate([corners[:, :2] + (classes * reach)[:, np.newaxis], corners[:, 2:] - corners[:, :2]], axis=1)
    kept = cv2.dnn.NMSBoxes(sides.astype(float).tolist(), scores.tolist(), 0.0, overlap)
    chosen = np.asarray(kept, np.int64).ravel()[:MOST_BOXES]
    return Found(corners[chosen], scores[chosen], classes[chosen])


def detected(found: Found, fit: Fit, width: int, height: int, labels: Sequence[str]) -> Result:
    """Return boxes in pixels of a picture of a width and height; the score is that of the most certain one."""
    corners = fit.back(found.corners)
    corners[:, 0::2] = np.clip(corners[:, 0::2], 0, width)
    corners[:, 1::2] = np.clip(corners[:, 1::2], 0, height)
    whole = np.rint(corners).astype(int)
    seen = [
        ((int(x), int(y), int(right - x), int(bottom - y)), name_of(int(kind), labels), round(float(score), 4))
        for (x, y, right, bottom), kind, score in zip(whole, found.classes, found.scores, strict=True)
        if right > x and bottom > y
    ][:MOST_BOXES]
    return Result(
        score=max((score for _, _, score in seen), default=0.0),
        boxes=tuple(box for box, _, _ in seen),
        values={"found": float(len(seen))},
        labels=tuple(label for _, label, _ in seen),
        scores=tuple(score for _, _, score in seen),
    )


def summed(answers: Sequence[NDArray[Any]], names: Sequence[str]) -> Result:
    """Return mean and most of each output; the score is the mean of the first one, from 0 to 1."""
    values: dict[str, float] = {}
    for name, answer in zip(names, answers, strict=True):
        numbers = np.asarray(answer, np.float64)
        values[f"{name}.mean"] = round(float(numbers.mean()), 6) if numbers.size else 0.0
        values[f"{name}.max"] = round(float(numbers.max()), 6) if numbers.size else 0.0
    first = next(iter(values.values()), 0.0)
    return Result(min(max(first, 0.0), 1.0), values=values)


def _sides(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "one number"
