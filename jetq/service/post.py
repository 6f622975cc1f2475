"""Where and as whom a member of a gang, or a seat of a stream, runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Post:
    """One claimed job of the processes lane, on its node."""

    job_id: str
    token: str  # of its claim
    node: str
    stop: threading.Event  # set when it shall end
    broker_url: str
    jobs_dir: Path | None  # of the node's job folders; None: it keeps no files
    shared: Path | None  # JETQ_SHARED
    allowed: tuple[str, ...] = ()  # patterns of what gangs may run, or streams open, here; (): any
    files_max_bytes: int = 2 * 1024**3  # of all that jobs leave on this node
