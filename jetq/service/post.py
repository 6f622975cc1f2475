"""Where and as whom a member of a gang runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Post:
    """One claimed member job, on its node."""

    member_id: str
    token: str  # of its claim
    node: str
    stop: threading.Event  # set when it shall end
    broker_url: str
    jobs_dir: Path | None  # of the node's job folders; None: it keeps no files
    shared: Path | None  # JETQ_SHARED
    allowed: tuple[str, ...] = ()  # patterns of commands that gangs may run here; (): any
