"""The two tasks that benchmarks send: one does nothing, one sleeps and says when it ended."""

from __future__ import annotations

import os
import socket
import time

from celery import shared_task

#: How fast the emulated node is.
_SPEED = float(os.environ.get("BENCH_SPEED", "1"))
_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@shared_task(name="bench.noop")
def noop(number: int) -> None:
    """Do nothing."""


@shared_task(name="bench.nap")
def nap(number: int, size_s: float) -> None:
    """Sleep as long as work of this size takes here; send the number and the moment of the end."""
    time.sleep(size_s / _SPEED)
    _socket.sendto(f"{number} {time.monotonic()}".encode(), os.environ["BENCH_ENDS"])
