"""What a node tells of a stream: one flat reading, in which nothing of a runner that is gone is left. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jetq.policy.streamstates import Life

#: What a runner counted stays true when it is gone.
_COUNTS = ("frames", "drops", "sinks")


def told(
    life: Life,
    now_s: float,
    *,
    said: Mapping[str, Any],
    opened: Mapping[str, Any],
    frame_s: float | None,
    runs: bool,
) -> dict[str, Any]:
    """Return how a stream is.

    Args:
        life: of the stream on this node. now_s: its clock.
        said: what its runner last reported, as it came. opened: the camera, as the runner opened it.
        frame_s: when the last frame of any runner came; None: none has.
        runs: whether there is a runner now. Without one no frames come: the rates are 0, and the rest is unknown.
    """
    base = {
        "state": life.state.value,
        "since_s": round(now_s - life.since_s, 1),
        "why": life.why,
        "frame_age_s": None if frame_s is None else round(max(0.0, now_s - frame_s), 3),
    }
    if not runs:
        return base | {"fps_in": 0.0, "fps_out": 0.0} | {name: said[name] for name in _COUNTS if name in said}
    return {**said, **opened, **base}
