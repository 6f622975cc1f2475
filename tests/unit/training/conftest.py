"""Ranks as a launcher would start them: processes of their own, told who they are by variables."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


class Rank:
    """One rank that runs some code in a folder of its own."""

    def __init__(self, code: str, folder: Path, environ: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, within_s: float = 60) -> tuple[int, str, str]:
        """Wait for it. Returns its exit code and what it wrote."""
        out, err = self.process.communicate(timeout=within_s)
        return self.process.returncode, out, err

    def kill(self) -> None:
        """Kill it and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def start_ranks(tmp_path) -> Iterator[Callable[..., list[Rank]]]:
    """Give ``start_ranks(code, count, **environ) -> list[Rank]``; rank N runs in the folder N."""
    started: list[Rank] = []

    def start(code: str, count: int, **environ: str) -> list[Rank]:
        port = str(free_port())
        for rank in range(count):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            own |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
            started.append(Rank(code, tmp_path / str(rank), own | environ))
        return started[-count:]

    yield start
    for rank in started:
        rank.kill()


def free_port() -> int:
    """Return a port that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
