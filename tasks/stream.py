"""The seats of streams: one on the node that has a stream, sent by the leader and by nobody else."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from jetq import wire


@shared_task(name="stream.run", jetq={"kind": "stream"}, resultrepr_maxsize=200)
def run() -> dict[str, Any]:
    """Keep a runner at the stream's camera until it is over, has failed, or shall end here."""
    return wire.run_seat()
