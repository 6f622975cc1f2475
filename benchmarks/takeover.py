"""Take-over: how long streams have no results, from the kill of their node to the first result of another.

Three nodes and eight real RTSP cameras, all of whose streams run on one node; the analyzer is `motion`. All processes
of that node (guard, agent, lanes, runners) are killed at once, as when it loses power; the cameras go on. By the times
when frames arrived, for each stream: from the kill to the first one that another node has looked at, and from the last
one of the dead node to that.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from benchmarks._cameras import SMALL, cameras, missing
from benchmarks._report import Report, Spread, options
from benchmarks._server import fresh_store, server
from benchmarks._streaming import COST, has_frames
from benchmarks._workers import APP_DIR, CLUSTER, ROOT, settings, wait
from jetq import process
from jetq.client import JetQ
from jetq.job import Job
from jetq.store.redis import RedisStore

NAMES, STREAMS, SLOTS = ("a", "b", "c"), 8, 4
#: What the design promises for each stream (s).
LIMIT_S = 7.0
#: Longest wait for the streams to be taken, or moved, and for all nodes to be well (s).
TAKEN_S, MOVED_S, WELL_S = 60.0, 120.0, 120.0


@dataclass(frozen=True, slots=True)
class Gap:
    """How long one stream was without results (s)."""

    gap_s: float
    taken_s: float


class Scene:
    """Nodes that are started again when they end, and streams on them."""

    def __init__(self, url: str, urls: Sequence[str], folder: Path) -> None:
        self.store: RedisStore = fresh_store(url, CLUSTER)
        self._client = JetQ(url, cluster=CLUSTER)
        self._folder, self._urls = folder, urls
        clean = {k: v for k, v in os.environ.items() if not k.startswith("JETQ_")}
        self._env = {**clean, **settings(url).as_environ(), "XDG_DATA_HOME": str(folder)}
        self._nodes: dict[str, process.Child] = {}
        self._jobs: list[Job] = []

    def keep(self) -> bool:
        """Start what has ended."""
        for name in NAMES:
            if name not in self._nodes or self._nodes[name].poll() is not None:
                flags = ("--name", name, "--slots", str(SLOTS), "--app-dir", str(APP_DIR), "--grace", "1")
                with (self._folder / f"{name}.log").open("ab") as out:
                    argv = process.self_argv("worker", *flags)
                    self._nodes[name] = process.spawn(argv, env=self._env, cwd=ROOT, stdout=out, stderr=out)
        return True

    def begin(self) -> None:
        """Want the streams."""
        wait(self._is_well, WELL_S, "the nodes")
        self._jobs = [
            self._client.stream(url, job_id=f"cam{number}", analyzer="motion", cost=COST)
            for number, url in enumerate(self._urls)
        ]

    def once(self, victim: str) -> list[Gap]:
        """Gather all streams on a node, kill it, and return how long each was without results."""
        wait(self._is_well, WELL_S, "the nodes")
        others = [name for name in NAMES if name != victim]
        for name in others:
            self.store.drain(name, "the streams go elsewhere", grace_s=60)
        wait(lambda: all(self._is_at(job, victim) for job in self._jobs), MOVED_S, "all streams to be on one node")
        for name in others:
            self.store.resume(name)
        wait(lambda: {row.state for row in self.store.nodes()} == {"up"}, WELL_S, "the other nodes")
        places = {job.id: self.store.last_result(job.id) for job in self._jobs}
        wait(lambda: all(self.store.results(*place)[1] for place in places.items()), TAKEN_S, "results before the kill")
        killed_s = time.time()
        _power_off(self._nodes[victim].pid)
        gaps = []
        for job in self._jobs:
            wait(lambda job=job: self._gap(job, places[job.id], killed_s) is not None, TAKEN_S, f"{job.id} elsewhere")
        for job in self._jobs:
            found = self._gap(job, places[job.id], killed_s)
            assert found is not None
            gaps.append(found)
        return gaps

    def stop(self) -> None:
        """End all."""
        for job in self._jobs:
            job.cancel("measured")
        for node in self._nodes.values():
            node.signal(signal.SIGTERM)
        for node in self._nodes.values():
            if node.wait(20) is None:
                node.kill()

    def _is_well(self) -> bool:
        self.keep()
        return [row.name for row in self.store.nodes() if row.state == "up"] == list(NAMES)

    def _is_at(self, job: Job, node: str) -> bool:
        row = job.row()
        return (
            has_frames(job) and bool(row.telemetry and row.telemetry.get("node") == node) and row.nodes[-1:] == [node]
        )

    def _gap(self, job: Job, place: str, killed_s: float) -> Gap | None:
        """Return how long a stream was without results; None: it still is."""
        return gap([(str(row["token"]), float(row["at"])) for row in self.store.results(job.id, place)[1]], killed_s)


def gap(results: Sequence[tuple[str, float]], killed_s: float) -> Gap | None:
    """Return how long a stream had no results; None: nobody has taken it yet.

    Args:
        results: token and time of each frame, in the order in which they came to the ledger; the first one is of the
            node that was killed.
        killed_s: when it was killed (Unix s).
    """
    old = [at_s for token, at_s in results if token == results[0][0]]
    new = [at_s for token, at_s in results if token != results[0][0]]
    return Gap(new[0] - old[-1], new[0] - killed_s) if new else None


def _power_off(guard: int) -> None:
    """Kill a guard and all that it has started, at one moment."""
    top = psutil.Process(guard)
    everything = [top, *top.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for proc in everything:
            os.kill(proc.pid, number)


@contextmanager
def _scene() -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="jetq-bench-") as name, server() as url:
        folder = Path(name)
        with cameras(SMALL, STREAMS, folder) as them:
            scene = Scene(url, them.urls, folder)
            try:
                scene.begin()
                yield scene
            finally:
                scene.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print. Returns the exit code."""
    asked = options(__doc__, argv, repeats=6)
    report = Report("takeover", f"seconds from the kill of a node with {STREAMS} streams to results of another")
    if why := missing():
        report.say(f"left out, since {why}")
    else:
        with _scene() as scene:
            repeats = 3 if asked.quick else asked.repeats
            rounds = [scene.once(NAMES[number % len(NAMES)]) for number in range(repeats)]
        gaps = [one for found in rounds for one in found]
        rows = [
            ("each stream", Spread.of([one.taken_s for one in gaps]), Spread.of([one.gap_s for one in gaps])),
            ("the first of a node", *_of_rounds(rounds, min)),
            ("the last of a node", *_of_rounds(rounds, max)),
        ]
        report.table(
            f"{repeats} kills, median with range", ("stream", "from the kill (s)", "without results (s)"), rows
        )
        report.say(f"median of all streams: {median(one.taken_s for one in gaps):.2f} s")
        report.budget("the slowest stream, s", Spread.of([max(one.taken_s for one in gaps)]), LIMIT_S)
    report.close(asked.json)
    return 0


def _of_rounds(rounds: Sequence[Sequence[Gap]], which: object) -> tuple[Spread, Spread]:
    assert callable(which)
    return (
        Spread.of([which(one.taken_s for one in found) for found in rounds]),
        Spread.of([which(one.gap_s for one in found) for found in rounds]),
    )


if __name__ == "__main__":
    sys.exit(main())
