"""Work to try a cluster with."""

from __future__ import annotations

import time

from celery import shared_task


@shared_task(name="demo.nap")
def nap(seconds: float = 1.0) -> float:
    """Sleep, and return for how long (seconds)."""
    time.sleep(seconds)
    return seconds


@shared_task(name="demo.add")
def add(a: float, b: float) -> float:
    """Return the sum."""
    return a + b


@shared_task(name="demo.fail")
def fail(message: str = "as asked") -> None:
    """Raise an error."""
    raise RuntimeError(message)
