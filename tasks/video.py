"""Video work; it goes to nodes that have the ``video`` extra, which carry a label of that name."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from jetq import video


@shared_task(name="video.analyze", jetq={"labels": ["video"]})
def analyze(
    place: dict[str, Any], chunk: dict[str, Any], analyzer: str = "motion", options: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Analyse one chunk of a video file."""
    return video.analyze_chunk(place, chunk, analyzer, options)
