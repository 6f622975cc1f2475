"""Structured logs: an event name and fields, one line each, to stderr."""

from __future__ import annotations

import logging
import sys
from typing import Any

_ROOT = "jetq"


class Log:
    """Write events of one part of jetq. Fields follow the event as ``key=value``."""

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{part}")

    def debug(self, event: str, **fields: Any) -> None:
        """Write what only a developer asks for."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Write a change of state."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write what heals itself."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Write what needs a person."""
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", " ".join([event, *(f"{k}={_show(v)}" for k, v in fields.items())]))


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return repr(text) if " " in text or not text else text


def setup(level: str = "info", prefix: str = "") -> None:
    """Send jetq's events of ``level`` and above to stderr. ``prefix`` names the process (``node-a agent``)."""
    handler = logging.StreamHandler(sys.stderr)
    mark = f"{prefix} " if prefix else ""
    handler.setFormatter(logging.Formatter(f"%(asctime)s.%(msecs)03d %(levelname).1s {mark}%(message)s", "%H:%M:%S"))
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
