"""Video work; it goes to nodes that have the ``video`` extra, which carry a label of that name."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from jetq import video

#: So much of a result goes into a node's log (characters): a chunk has a line per frame.
_LOGGED = 80
#: The largest result of a chunk (bytes): its pictures are in it, and the command that waits for it takes it at once.
_RESULT_BYTES = 64 * 1024 * 1024


@shared_task(
    name="video.analyze", jetq={"labels": ["video"], "max_result_bytes": _RESULT_BYTES}, resultrepr_maxsize=_LOGGED
)
def analyze(
    place: dict[str, Any], chunk: dict[str, Any], analyzer: str = "motion", options: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Analyse one chunk of a video file."""
    return video.analyze_chunk(place, chunk, analyzer, options)
