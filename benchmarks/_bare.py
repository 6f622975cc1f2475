"""Programs of one's own that watch cameras, and what they take of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks._cameras import ROOT, Cameras
from benchmarks._report import p99
from benchmarks._workers import cpu_s
from jetq import process

#: Time from the first frames until figures count: caches are filled, and the burst of the start is over (s).
SETTLE_S = 4.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What watching some cameras gave and took."""

    fps: float  # frames that were done a second, of all cameras together
    slowest_fps: float  # of the camera with the fewest
    cores: float  # processor seconds a second, of all that watch
    pss_bytes: int  # memory of all that watch, what they share counted once
    latency_p99_s: float | None  # from the arrival of a frame to its result
    camera_cores: float  # of the RTSP server


def watch(kind: str, cameras: Cameras, seconds: float, *, together: bool) -> Figures:
    """Watch cameras by one process (``together``), or one process a camera.

    Raises:
        RuntimeError: one of them ended early.
    """
    groups = [cameras.urls] if together else [[url] for url in cameras.urls]
    with ExitStack() as stack:
        watchers = []
        for urls in groups:
            watcher = _started([sys.executable, "-m", "benchmarks._watch", kind, *urls])
            stack.callback(watcher.wait)
            stack.callback(watcher.kill)
            watchers.append(watcher)
        for watcher in watchers:
            if _line(watcher) != "ready":
                raise RuntimeError(f"a program that watches ({kind}) ended with {watcher.wait()}")
        begin_s = time.monotonic() + SETTLE_S
        for watcher in watchers:
            assert watcher.stdin is not None
            watcher.stdin.write(f"{begin_s} {begin_s + seconds}\n")
            watcher.stdin.flush()
        meter = Meter([watcher.pid for watcher in watchers], cameras.pid)
        time.sleep(begin_s - time.monotonic())
        meter.begin()
        time.sleep(max(0.0, begin_s + seconds - 0.3 - time.monotonic()))
        cores, pss_bytes, camera_cores = meter.end()
        took_s = [one for watcher in watchers for one in json.loads(_line(watcher))]
    return figures(took_s, seconds, cores, pss_bytes, camera_cores)


def figures(
    took_s: Sequence[Sequence[float]], seconds: float, cores: float, pss_bytes: int, camera_cores: float
) -> Figures:
    """Return the figures of cameras of which each frame took so long (s)."""
    counts = [len(one) for one in took_s]
    every = [took for one in took_s for took in one]
    slowest = min(counts, default=0) / seconds
    return Figures(sum(counts) / seconds, slowest, cores, pss_bytes, p99(every) if any(every) else None, camera_cores)


class Meter:
    """Measures processes with all that they have started."""

    def __init__(self, pids: Sequence[int], cameras: int) -> None:
        self._pids, self._cameras = list(pids), cameras

    def begin(self) -> None:
        """Start to count."""
        self._began_s = time.monotonic()
        self._used_s, self._sent_s = cpu_s(self._pids), cpu_s([self._cameras])

    def end(self) -> tuple[float, int, float]:
        """Return cores and memory of the processes, and cores of the cameras."""
        took_s = time.monotonic() - self._began_s
        used_s, sent_s = cpu_s(self._pids) - self._used_s, cpu_s([self._cameras]) - self._sent_s
        return used_s / took_s, pss_bytes(self._pids), sent_s / took_s


def pss_bytes(pids: Sequence[int]) -> int:
    """Return the memory of processes and of all below them; what several share is divided among them."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        total += pss_bytes(process.children(pid))
    return total


def _started(argv: Sequence[str]) -> subprocess.Popen[str]:
    """Start a program in a session of its own, as runners are: on a busy machine a session has one share."""
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, start_new_session=True)


def _line(watcher: subprocess.Popen[str]) -> str:
    assert watcher.stdout is not None
    return watcher.stdout.readline().strip()


def cores_here() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
