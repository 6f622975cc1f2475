"""Real time: a trace is published job by job to real workers, whose tasks sleep and say when they ended."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from celery import Celery

from benchmarks._fleet import Job, Machine
from benchmarks._plain import plain_app
from benchmarks._server import server
from benchmarks._workers import Kind, settings, workers
from benchmarks.app.tasks import bench
from jetq import wire

#: Jobs are lost if none ends for so long (s).
PATIENCE_S = 60.0


def run(kind: Kind, machines: Sequence[Machine], jobs: Sequence[Job]) -> list[float]:
    """Return each job's sojourn (s): from when the trace says it arrives to the end of its body.

    Raises:
        TimeoutError: a job never ended.
    """
    with tempfile.TemporaryDirectory(prefix="jetq-bench-") as folder, server() as url:
        address = str(Path(folder) / "ends")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ends:
            ends.bind(address)
            ends.settimeout(PATIENCE_S)
            app = _app(kind, url)
            with workers(kind, url, machines, {"BENCH_ENDS": address}):
                return _drive(app, jobs, ends)


def _app(kind: Kind, url: str) -> Celery:
    if kind.routed:
        return wire.create_app(settings(url), url, current=False)
    return plain_app(url, results=False)


def _drive(app: Celery, jobs: Sequence[Job], ends: socket.socket) -> list[float]:
    nap = app.tasks[bench.nap.name]
    nap.apply_async((0, 0.0), ignore_result=True)  # opens the connection; its end is not counted
    ends.recv(64)
    ended_s: dict[int, float] = {}

    def listen() -> None:
        while len(ended_s) < len(jobs):
            try:
                number, at_s = ends.recv(64).split()
            except TimeoutError:
                return
            ended_s[int(number)] = float(at_s)

    listener = threading.Thread(target=listen)
    listener.start()
    begin_s = time.monotonic() + 0.5
    for number, job in enumerate(jobs):
        time.sleep(max(0.0, begin_s + job.at_s - time.monotonic()))
        nap.apply_async((number, job.size_s), ignore_result=True)
    listener.join()
    if len(ended_s) < len(jobs):
        raise TimeoutError(f"{len(jobs) - len(ended_s)} of {len(jobs)} jobs did not end")
    return [ended_s[number] - begin_s - job.at_s for number, job in enumerate(jobs)]


def _runner(kind: Kind) -> Callable[[Sequence[Machine], Sequence[Job]], list[float]]:
    return lambda machines, jobs: run(kind, machines, jobs)


#: What runs in real time, under the names that the simulation gives them.
SYSTEMS = {
    "dynamic": _runner(Kind(routed=True)),
    "Celery, prefetch 1, disable_prefetch": _runner(Kind(routed=False, prefetch_1=True)),
}
