"""What the benchmarks of streams make of what they have measured."""

from __future__ import annotations

import os
from pathlib import Path

import av
import pytest

from benchmarks._bare import Figures, Meter, figures, pss_bytes
from benchmarks._cameras import LARGE, Kind, make_film
from benchmarks._report import Spread
from benchmarks.streams import MOST, best, filling, row
from benchmarks.takeover import Gap, gap


def test_figures_add_up_cameras_and_name_the_slowest():
    found = figures([[0.01] * 30, [0.02] * 28, [0.5] * 2], 2.0, 1.5, 10, 0.1)

    assert found == Figures(30.0, 1.0, 1.5, 10, 0.5, 0.1)


def test_who_tells_no_latency_has_none():
    assert figures([[0.0, 0.0], []], 2.0, 1.0, 1, 0.1) == Figures(1.0, 0.0, 1.0, 1, None, 0.1)


def test_the_best_bare_loop_counts():
    bare = {name: Figures(fps, 1.0, 1.0, 1, None, 0.0) for name, fps in {"threads": 200.0, "processes": 230.0}.items()}

    assert best(bare) == 230.0


def test_a_row_is_for_each_stream_and_leaves_out_what_was_there_before():
    found = [Figures(240.0, 15.0, 1.6, 900_000_000, 0.05, 0.1), Figures(220.0, 10.0, 1.2, 800_000_000, None, 0.1)]

    assert row("jetq", found, 16, less_bytes=[100_000_000, 160_000_000]) == [
        "jetq",
        Spread(230.0, 220.0, 240.0, 2),
        Spread(12.5, 10.0, 15.0, 2),
        Spread(0.0875, 0.075, 0.1, 2),
        Spread(45.0, 40.0, 50.0, 2),
        Spread(50.0, 50.0, 50.0, 1),
    ]
    assert row("decode", [found[1]], 16)[-1] == "-"


def test_the_search_for_too_many_cameras_begins_where_these_fill_the_machine():
    half = Figures(15.0, 7.5, 0.35, 1, None, 0.0)  # two cameras of which every second frame was looked at

    assert filling(half, LARGE, 2) == 6
    assert filling(half, LARGE, 64) == MOST
    assert filling(Figures(30.0, 15.0, 9.0, 1, None, 0.0), LARGE, 2) == 2
    assert filling(Figures(0.0, 0.0, 0.0, 1, None, 0.0), LARGE, 2) == MOST


def test_a_gap_ends_with_the_first_result_of_another():
    assert gap([("a", 9.0), ("a", 9.9), ("a", 10.01), ("b", 15.5), ("b", 15.6)], 10.0) == Gap(
        pytest.approx(5.49), pytest.approx(5.5)
    )
    assert gap([("a", 9.0), ("a", 9.9)], 10.0) is None


def test_memory_and_cores_of_a_process_are_measured():
    meter = Meter([os.getpid()], os.getpid())
    meter.begin()
    total = sum(range(2_000_000))
    cores, memory, camera_cores = meter.end()

    assert total
    assert 0 < cores <= os.cpu_count() * 1.5
    assert camera_cores > 0
    assert memory == pytest.approx(pss_bytes([os.getpid()]), rel=0.2)
    assert memory > 10_000_000


def test_a_film_is_one_file_a_frame_each_with_one_slice(tmp_path: Path, clips: Path):
    tiny = Kind("carphone_pristine.mp4", 176, 144)
    count = make_film(tiny, tmp_path / "film")
    parts = [path.read_bytes() for path in sorted((tmp_path / "film").iterdir())]
    (tmp_path / "all.h264").write_bytes(b"".join(parts))
    slices = [
        sum(part.count(b"\x00\x00\x01" + bytes([kind])) for kind in (0x41, 0x61, 0x01, 0x21, 0x65)) for part in parts
    ]
    with av.open(str(tmp_path / "all.h264")) as film:
        sizes = {(frame.width, frame.height) for frame in film.decode(video=0)}

    assert count == len(parts) == 120
    assert set(slices) == {1}
    assert sizes == {(176, 144)}
