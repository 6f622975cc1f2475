"""Streams: frames a second that are looked at, beside programs of one's own with the same analyzer, on one machine.

Real RTSP cameras (H.264 over TCP; a server that encodes nothing), the analyzer `motion` on every frame. In turn, round
by round:

    threads      one process, a thread a camera: cv2.VideoCapture, read, look
    processes    one process a camera
    processes 1  the same, with one thread that decodes
    decode       one process a camera that only decodes (PyAV, no conversion): the limit, as `ffmpeg -f null` would be
    jetq         four nodes, one stream a camera

First 16 cameras of 640x360@15; then, half as often, cameras of 1280x720@15, as many as the machine cannot serve any
more.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import _bare, _streaming
from benchmarks._bare import Figures, cores_here
from benchmarks._cameras import LARGE, SMALL, Cameras, Kind, cameras, missing
from benchmarks._report import Report, Spread, options

#: Of the best bare loop's frames.
LEAST_RATIO = 0.95
COUNT = 16
#: Who gets less than this share of the frames that come is saturated; and the most cameras that are tried.
SATURATED, MOST = 0.95, 24
#: How each program of one's own is started: kind, all in one process.
BARE = {"threads": ("opencv", True), "processes": ("opencv", False), "processes 1": ("opencv-1", False)}
COLUMNS = ("by", "frames/s", "slowest camera", "cores a stream", "MB a stream", "p99 of the latency, ms")


def best(bare: dict[str, Figures]) -> float:
    """Return the most frames a second that a bare loop has looked at."""
    return max(found.fps for found in bare.values())


def row(name: str, found: Sequence[Figures], count: int, *, less_bytes: Sequence[int] = ()) -> list[object]:
    """Return a line of the table.

    Args:
        count: of cameras.
        less_bytes: what is not to be counted as memory of the streams.
    """
    memory = [one.pss_bytes - less for one, less in zip(found, less_bytes or [0] * len(found), strict=True)]
    late = [one.latency_p99_s * 1000 for one in found if one.latency_p99_s is not None]
    return [
        name,
        Spread.of([one.fps for one in found]),
        Spread.of([one.slowest_fps for one in found]),
        Spread.of([one.cores / count for one in found]),
        Spread.of([each / count / 1e6 for each in memory]),
        Spread.of(late) if late else "-",
    ]


def saturating(kind: Kind, folder: Path, seconds: float) -> int:
    """Return how many cameras are too many for bare processes; the search begins where the cores are full."""

    def look(count: int) -> Figures:
        with cameras(kind, count, folder) as them:
            return _bare.watch("opencv", them, seconds, together=False)

    for count in range(filling(look(2), kind, cores_here()), MOST, 2):
        if look(count).fps < SATURATED * count * kind.fps:
            return count
    return MOST


def filling(found: Figures, kind: Kind, cores: int) -> int:
    """Return how many cameras take all cores, by what their frames have taken."""
    each_cores = found.cores / max(found.fps, 0.1) * kind.fps
    return max(2, min(MOST, math.ceil(cores / max(each_cores, 0.01))))


def measure(report: Report, kind: Kind, count: int, folder: Path, *, seconds: float, repeats: int) -> None:
    """Watch so many cameras by everything in turn, and report."""
    systems: dict[str, Callable[[Cameras], Figures]] = {
        name: lambda them, how=how: _bare.watch(how[0], them, seconds, together=how[1]) for name, how in BARE.items()
    }
    systems["decode"] = lambda them: _bare.watch("pyav", them, seconds, together=False)
    found: dict[str, list[Figures]] = {name: [] for name in [*systems, "jetq"]}
    empty_bytes: list[int] = []
    for _ in range(repeats):
        for name, watch in systems.items():
            with cameras(kind, count, folder) as them:
                found[name].append(watch(them))
        with cameras(kind, count, folder) as them:
            streams, empty = _streaming.watch(them, seconds)
        found["jetq"].append(streams)
        empty_bytes.append(empty)
    rows = [row(name, every, count) for name, every in found.items() if name != "jetq"]
    rows.append(row("jetq", found["jetq"], count, less_bytes=empty_bytes))
    title = f"{count} cameras of {kind} ({count * kind.fps} frames/s) on {cores_here()} cores"
    report.table(title, COLUMNS, rows)
    report.say(f"nodes and broker without streams: {sum(empty_bytes) / len(empty_bytes) / 1e6:.0f} MB")
    report.say(
        f"the RTSP server: {max(one.camera_cores for every in found.values() for one in every):.2f} cores at most"
    )
    ratios = [one.fps / best({name: found[name][number] for name in BARE}) for number, one in enumerate(found["jetq"])]
    report.budget(
        f"{count} x {kind}: jetq / the best bare loop, frames/s", Spread.of(ratios), LEAST_RATIO, at_most=False
    )


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement (default 8)")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print. Returns the exit code."""
    asked = options(__doc__, argv, repeats=2, add=_flags)
    report = Report("streams", "frames a second that are looked at, median with range")
    if why := missing():
        report.say(f"left out, since {why}")
    else:
        seconds = min(2.0, asked.seconds) if asked.quick else asked.seconds
        with tempfile.TemporaryDirectory(prefix="jetq-bench-") as name:
            folder = Path(name)
            measure(report, SMALL, 2 if asked.quick else COUNT, folder, seconds=seconds, repeats=asked.repeats)
            if not asked.quick:
                many = saturating(LARGE, folder, 4.0)
                measure(report, LARGE, many, folder, seconds=seconds, repeats=math.ceil(asked.repeats / 2))
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
