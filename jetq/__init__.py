"""jetq: several boards as one machine for video streams, tasks and training jobs.

``from jetq import JetQ, Settings, install, create_app, files_dir, token``.
Names load on first use: ``import jetq`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jetq._version import __version__

if TYPE_CHECKING:
    from jetq.client import JetQ
    from jetq.config import Settings
    from jetq.engine.current import token
    from jetq.engine.surroundings import files_dir
    from jetq.job import Job
    from jetq.wire import create_app, install

__all__ = ["JetQ", "Job", "Settings", "__version__", "create_app", "files_dir", "install", "token"]

_HOME = {
    "JetQ": "jetq.client",
    "Job": "jetq.job",
    "Settings": "jetq.config",
    "create_app": "jetq.wire",
    "files_dir": "jetq.engine.surroundings",
    "install": "jetq.wire",
    "token": "jetq.engine.current",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jetq' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
