"""Video files: cut into chunks, analysed chunk by chunk, merged in order.

Names load on first use: a node without PyAV and OpenCV starts all the same, and refuses only video work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jetq.errors import UsageError

if TYPE_CHECKING:
    from jetq.video.farm import TASK, Crew, Progress, analyze_files
    from jetq.video.report import Report
    from jetq.video.run import analyze_chunk
    from jetq.video.study import Prepared, Study, prepare

__all__ = [
    "TASK",
    "Crew",
    "Prepared",
    "Progress",
    "Report",
    "Study",
    "analyze_chunk",
    "analyze_files",
    "prepare",
]

_HOME = {
    "TASK": "jetq.video.farm",
    "Crew": "jetq.video.farm",
    "Prepared": "jetq.video.study",
    "Progress": "jetq.video.farm",
    "Report": "jetq.video.report",
    "Study": "jetq.video.study",
    "analyze_chunk": "jetq.video.run",
    "analyze_files": "jetq.video.farm",
    "prepare": "jetq.video.study",
}
#: What the ``video`` extra brings.
_EXTRA = frozenset({"av", "cv2", "numpy"})


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jetq.video' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as exc:
        if exc.name not in _EXTRA:
            raise
        raise UsageError(f"video work needs {exc.name}: install jetq with its `video` extra on this machine") from exc


def __dir__() -> list[str]:
    return sorted(__all__)
