"""What the soak sends. Each body writes its start and its end into a record of its own, outside of jetq."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from celery import shared_task

#: The record: one line per event, appended whole.
RECORD = "SOAK_RECORD"


def tell(what: str, job_id: str) -> int:
    """Append one line. Returns how many starts of this job stand there."""
    record = Path(os.environ[RECORD])
    line = f"{what} {job_id} {os.environ['JETQ_TOKEN']} {time.time():.3f}\n"
    with record.open("a") as out:
        out.write(line)
    if what != "start":
        return 0
    return sum(1 for row in record.read_text().splitlines() if row.startswith(f"start {job_id} "))


@shared_task(name="soak.work", bind=True)
def work(self: Any, *_before: Any, nap_s: float = 0.0) -> str:
    """Take a nap; what a chain or chord hands over is ignored."""
    tell("start", self.request.id)
    time.sleep(nap_s)
    tell("end", self.request.id)
    return str(self.request.id)


@shared_task(name="soak.retries", bind=True, max_retries=5)
def retries(self: Any, times: int, nap_s: float = 0.0) -> str:
    """Ask for a retry so often, then end."""
    tell("start", self.request.id)
    time.sleep(nap_s)
    if self.request.retries < times:
        raise self.retry(countdown=0.2)
    tell("end", self.request.id)
    return str(self.request.id)


@shared_task(name="soak.crashes", bind=True)
def crashes(self: Any, nap_s: float = 0.0) -> str:
    """Kill its own process in its first run."""
    if tell("start", self.request.id) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(nap_s)
    tell("end", self.request.id)
    return str(self.request.id)


@shared_task(name="soak.poison", bind=True)
def poison(self: Any) -> None:
    """Kill its own process in every run."""
    tell("start", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@shared_task(name="soak.fails", bind=True)
def fails(self: Any) -> None:
    """Raise."""
    tell("start", self.request.id)
    tell("end", self.request.id)
    raise ValueError("as it should")


@shared_task(name="soak.tree", bind=True)
def tree(self: Any, nap_s: float) -> str:
    """Do its work in a grandchild with a session of its own."""
    tell("start", self.request.id)
    subprocess.run(["setsid", "--wait", "sleep", str(nap_s)], check=True)
    tell("end", self.request.id)
    return str(self.request.id)
