"""Tell the gang's owner how far the training is: one file, replaced each time, read by the node."""

from __future__ import annotations

import json
import math
import numbers
import os
import time
from pathlib import Path

from jetq.errors import UsageError
from jetq.training.seat import say, seat

#: Least time between two reports (s): a step may take a millisecond.
REPORT_S = 0.2


class _Last:
    """The last report of this process."""

    at_s = -math.inf  # time.monotonic()
    failed = False  # it could not be written, and that was said


def progress(step: int, total: int, **metrics: float) -> None:
    """Tell how far the training is. Call it as often as you like: one in 0.2 s is passed on, and always the last.

    Only rank 0's calls count, and outside of a gang nobody listens.

    Args:
        step: what is done so far, 0 to ``total``.
        total: of the whole training, also of what earlier attempts did.
        metrics: numbers; one that is not finite is passed on as unknown (null).

    Raises:
        UsageError: something is no number (of a tensor give ``loss.item()``), or out of range.
    """
    _check_whole("step", step, 0)
    _check_whole("total", total, 1)
    if step > total:
        raise UsageError(f"progress: step {step} is beyond the last one, {total}")
    told = {name: _number(name, value) for name, value in metrics.items()}
    path, now_s = os.environ.get("JETQ_PROGRESS"), time.monotonic()
    if path and seat(os.environ).rank == 0 and (step == total or now_s - _Last.at_s >= REPORT_S):
        _Last.at_s = now_s
        _write(Path(path), json.dumps({"step": int(step), "total": int(total), "metrics": told}))


def _check_whole(what: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise UsageError(f"progress: {what} must be a whole number, {least} or more, not {value!r:.80}")


def _number(name: str, value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        hint = f"{name}.item()" if hasattr(value, "item") else "a number"
        raise UsageError(f"progress: {name} must be a number, not {type(value).__name__}; give {hint}")
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if math.isfinite(value) else None


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as exc:  # a full disk ends no training
        if not _Last.failed:
            say(f"progress is not passed on: {exc}")
        _Last.failed = True
