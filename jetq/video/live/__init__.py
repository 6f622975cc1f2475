"""Live streams: the process that reads one camera, looks at its frames and hands on what it saw."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetq.video.live.spare import serve

__all__ = ["serve"]


def __getattr__(name: str) -> Any:
    """Load the spare, and with it all that streams need, when it is asked for."""
    if name != "serve":
        raise AttributeError(f"module 'jetq.video.live' has no attribute {name!r}")
    return import_module("jetq.video.live.spare").serve
