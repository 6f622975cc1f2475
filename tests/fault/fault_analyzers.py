"""Analyzers that the fault tests give streams; each lies in the nodes' --app-dir."""

from __future__ import annotations

import threading
from typing import Any

from jetq.video.analyzers.base import Result


class Plain:
    """Say that a frame was seen."""

    def start(self) -> None:
        """Nothing is needed."""

    def frame(self, picture: Any, t_s: float) -> Result:
        """Return its mean."""
        return Result(float(picture.mean()))

    def stop(self) -> None:
        """Nothing is held."""


class SlowStart(Plain):
    """Takes as long to begin as a large model does."""

    def start(self) -> None:
        """Wait."""
        threading.Event().wait(2)


class Hangs(Plain):
    """Never begins."""

    def start(self) -> None:
        """Wait for ever."""
        threading.Event().wait()


class Raises(Plain):
    """Raises on each frame."""

    def frame(self, picture: Any, t_s: float) -> Result:
        """Raise."""
        raise ValueError("the model is empty")
