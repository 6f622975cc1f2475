"""Onnx: a model of the user's looks at each frame, by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jetq.errors import UsageError
from jetq.log import Log
from jetq.video.analyzers import answers
from jetq.video.analyzers.base import Result
from jetq.video.analyzers.network import Network
from jetq.video.analyzers.tensors import Recipe, recipe

_log = Log("onnx")
TASKS = ("classify", "detect", "raw")
#: More threads than that are a typo.
_MOST_THREADS = 64
#: How sure a detector must be, where nobody says it.
_DETECT_THRESHOLD = 0.25


class Onnx:
    """Give each frame to a model.

    ``classify``: the likeliest class. ``detect``: boxes of a YOLO-like model. ``raw``: mean and most of each output.
    Each frame stands alone. The model is loaded, and tried on a grey picture, as soon as the analyzer is made.
    """

    warmup = 0

    def __init__(
        self,
        *,
        model: str = "",
        task: str = "raw",
        size: str | int = "",
        labels: Sequence[str] = (),
        threshold: float | None = None,
        overlap: float = 0.45,
        rows: str = "",
        layout: str = "",
        scale: float | None = None,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        colours: str = "rgb",
        every: int = 1,
        threads: int = 1,
        provider: str = "",
    ) -> None:
        """Load the model.

        Args:
            model: file of the model.
            task: classify, detect or raw.
            size: WIDTHxHEIGHT of its input, where the model takes any.
            labels: names of its classes, in their order.
            threshold: what is less certain is left out (0..1); None: 0.25 for boxes, 0 for classes.
            overlap: of two boxes of one class that share so much of their area (0..1), the better one stays.
            rows: what a detector's rows are: v8, v5 or nms; "": told from their shape.
            layout: nchw or nhwc; "": told from the shape.
            scale, mean, std: value = (pixel × scale - mean) ÷ std; scale None: 1/255, or 1 for a model of bytes.
            colours: rgb or bgr.
            every: it is given every n-th frame.
            threads: that compute one frame, on processors.
            provider: cuda, tensorrt or cpu; "": cuda where it works, else the processor.

        Raises:
            UsageError: the model cannot be used like that; one line says why.
        """
        _check(task, model, threads)
        self.every = every
        self._task, self._threads = task, threads
        self._labels = _names(labels)
        self._threshold = _share("threshold", (_DETECT_THRESHOLD if task == "detect" else 0.0), threshold)
        self._overlap = _share("overlap", 0.45, overlap)
        self._network = Network(model, threads=threads, provider=provider)
        given = self._network.input
        side = f"{size}x{size}" if isinstance(size, int) else size
        looks: dict[str, Any] = {"layout": layout, "scale": scale, "mean": mean, "std": std, "colours": colours}
        self._recipe: Recipe = recipe(given.shape, given.dtype, size=side, letterbox=task == "detect", **looks)
        self._rows = self._tried(rows)

    def start(self) -> None:
        """Say what looks: a provider that is missing is seen here."""
        made = self._recipe
        _log.info(
            "onnx.ready",
            model=self._network.name,
            task=self._task,
            provider=self._network.provider,
            input=f"{made.width}x{made.height}",
            threads=self._threads,
        )

    def frame(self, picture: NDArray[np.uint8], t_s: float) -> Result:
        """Return what the model says of the picture."""
        tensor, fit = self._recipe.make(picture)
        said = self._network.say(tensor)
        if self._task == "raw":
            return answers.summed(said, self._network.outputs)
        if self._task == "classify":
            return answers.classified(said[0], self._labels, self._threshold)
        found = answers.read_rows(said[0], self._rows, self._threshold)
        if self._rows != "nms":
            found = answers.suppressed(found, self._overlap)
        height, width = picture.shape[:2]
        return answers.detected(found, fit, width, height, self._labels)

    def stop(self) -> None:
        """Nothing is held but the model."""

    def _tried(self, rows: str) -> str:
        """Show it a grey picture: shapes that do not fit are told now. Returns what a detector's rows are."""
        grey = np.full((self._recipe.height, self._recipe.width, 3), 114, np.uint8)
        shape: tuple[int, ...] = self._network.say(self._recipe.make(grey)[0])[0].shape
        if self._task == "classify":
            answers.check_classes(shape, self._labels)
        return answers.rows_of(shape, self._labels, rows) if self._task == "detect" else ""


def _check(task: object, model: object, threads: object) -> None:
    if task not in TASKS:
        raise UsageError(f"onnx: task must be one of {', '.join(TASKS)}, not {task!r:.40}")
    if not isinstance(model, str) or not model:
        raise UsageError("onnx: give the file of a model: model=FILE.onnx")
    if not isinstance(threads, int) or not 1 <= threads <= _MOST_THREADS:
        raise UsageError(f"onnx: threads must be a whole number from 1 to {_MOST_THREADS}, not {threads!r:.40}")


def _names(labels: Any) -> tuple[str, ...]:
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise UsageError(f'onnx: labels must be a list of names, for example ["cat", "dog"], not {labels!r:.80}')
    return tuple(labels)


def _share(what: str, default: float, value: object) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"onnx: {what} must be a number from 0 to 1, not {value!r:.40}")
    return float(value)
