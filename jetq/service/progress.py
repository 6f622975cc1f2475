"""How far a gang is, as its ranks write it into a file. They may write anything: what is in order is passed on."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path

#: A longer text is no report (bytes).
MOST_BYTES = 16 * 1024
#: Larger numbers are no count of steps.
_MOST_STEPS = 2**53


class ProgressFile:
    """The file that a member's ranks replace. One thread reads it."""

    def __init__(self, path: Path) -> None:
        """``path``: nothing needs to be there."""
        self._path = path
        self._told = ""

    def news(self) -> str:
        """Return what it says (JSON), "" where that was told, is not in order, or cannot be read now."""
        try:
            text = in_order(_content(self._path))
        except (OSError, ValueError, RecursionError):
            return ""
        return "" if text == self._told else text

    def told(self, news: str) -> None:
        """Take it that these were passed on."""
        self._told = news


def in_order(content: bytes) -> str:
    """Return a report with what readers rely on, and nothing else: step, total and metrics.

    Raises:
        ValueError: it is no such report. RecursionError: it is far from one.
    """
    said = json.loads(content)
    if not isinstance(said, Mapping):
        raise ValueError("it is no object")
    metrics = said.get("metrics") or {}
    if not isinstance(metrics, Mapping):
        raise ValueError("its metrics are no object")
    told = {name: _finite(value) for name, value in metrics.items()}
    return json.dumps({"step": _count(said.get("step")), "total": _count(said.get("total")), "metrics": told})


def _content(path: Path) -> bytes:
    """Return what is in a file; of a pipe or a device, which might hold us up, nothing."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is no file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("it is too long")
    return content


def _count(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_STEPS:
        raise ValueError("it is no number of steps")
    return value


def _finite(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a metric is no number")
    return value if math.isfinite(value) else None
