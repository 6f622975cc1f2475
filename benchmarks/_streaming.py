"""Streams of jetq for one benchmark: nodes that have room for all of them, and what came of watching."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from benchmarks._bare import SETTLE_S, Figures, Meter, figures
from benchmarks._cameras import Cameras
from benchmarks._fleet import Machine
from benchmarks._server import fresh_store, server
from benchmarks._workers import CLUSTER, Kind, wait, workers
from jetq.client import JetQ
from jetq.job import Job
from jetq.store.redis import RedisStore

NODES, SLOTS = 4, 4
#: What a stream is said to cost, so that all fit wherever they are put (slots).
COST = 0.25
#: The last results of a measurement are in the ledger by then (s).
ARRIVE_S = 3.0
#: Longest wait for all streams to have frames, and for all to be gone (s).
FRAMES_S, GONE_S = 120.0, 60.0


@contextmanager
def cluster() -> Iterator[tuple[JetQ, RedisStore, list[int]]]:
    """Run nodes; yield a client, the ledger, and the pids of the nodes and of the broker."""
    with server() as url:
        store = fresh_store(url, CLUSTER)
        machines = [Machine(f"n{number}", SLOTS, 1.0, "pc") for number in range(NODES)]
        with workers(Kind(routed=True), url, machines) as pids:
            broker = int(store.client.info("server")["process_id"])
            yield JetQ(url, cluster=CLUSTER), store, [*pids, broker]


def watch(cameras: Cameras, seconds: float) -> tuple[Figures, int]:
    """Watch cameras by streams. Returns what that gave and took, and the memory of the nodes without any stream."""
    with cluster() as (client, store, pids):
        meter = Meter(pids, cameras.pid)
        meter.begin()
        empty_bytes = meter.end()[1]
        jobs = start(client, cameras.urls)
        time.sleep(SETTLE_S)
        begin_s = time.time()
        meter.begin()
        time.sleep(seconds)
        cores, pss_bytes, camera_cores = meter.end()
        end_s = time.time()
        time.sleep(ARRIVE_S)
        p99_s = [told.get("latency_p99_s") for job in jobs if (told := job.row().telemetry)]
        counts = [len(_between(store, job.id, begin_s, end_s)) for job in jobs]
        stop(jobs)
    found = figures([[0.0] * count for count in counts], end_s - begin_s, cores, pss_bytes, camera_cores)
    latency_s = median([value for value in p99_s if value is not None] or [0.0])
    return replace(found, latency_p99_s=latency_s or None), empty_bytes


def start(client: JetQ, urls: Sequence[str], **fields: object) -> list[Job]:
    """Want streams, and wait until each has been looked at."""
    jobs = [
        client.stream(url, job_id=f"cam{number}", analyzer="motion", cost=COST, **fields)
        for number, url in enumerate(urls)
    ]
    wait(lambda: all(has_frames(job) for job in jobs), FRAMES_S, "all streams to have frames")
    return jobs


def stop(jobs: Sequence[Job]) -> None:
    """Cancel streams, and wait for their ends."""
    for job in jobs:
        job.cancel("measured")
    wait(lambda: all(job.row().ended for job in jobs), GONE_S, "all streams to end")


def has_frames(job: Job) -> bool:
    """Whether frames of a stream are looked at."""
    told = job.row().telemetry
    return bool(told and told.get("state") == "streaming" and told.get("fps_out"))


def _between(store: RedisStore, stream: str, begin_s: float, end_s: float) -> list[float]:
    """Return when the frames came (Unix s) of which there is a result, of those that came between two times."""
    place, at_s = "", []
    while True:
        place, rows = store.results(stream, place)
        if not rows:
            return [at for at in at_s if begin_s <= at < end_s]
        at_s += [float(row["at"]) for row in rows]
