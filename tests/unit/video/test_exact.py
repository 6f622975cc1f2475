"""What chunks give is what one pass gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest

from jetq.video.chunks import plan, whole
from jetq.video.run import analyze_chunk
from jetq.video.source import probe

CLIPS = ("bikes", "bigbuckbunny", "carphone_pristine", "carphone_distorted")
#: Frames of the real clips, counted by decoding them.
FRAMES = {"bikes": 250, "bigbuckbunny": 132, "carphone_pristine": 120, "carphone_distorted": 120}
KEYS = {"bikes": 6, "bigbuckbunny": 1, "carphone_pristine": 1, "carphone_distorted": 1}


def place(path: Path) -> dict[str, Any]:
    return {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}


def one_pass(path: Path, analyzer: str, **options: Any) -> list[Any]:
    return analyze_chunk(place(path), whole(probe(path).index).as_json(), analyzer, options)["frames"]


def in_chunks(path: Path, analyzer: str, chunk_frames: int, warmup: int = 0, **options: Any) -> list[Any]:
    chunks = plan(probe(path).index, chunk_frames=chunk_frames, warmup=warmup)
    found = [analyze_chunk(place(path), chunk.as_json(), analyzer, options) for chunk in chunks]
    return [row for one in found for row in one["frames"]]


@pytest.mark.parametrize("name", CLIPS)
def test_the_real_clips_are_what_they_are_said_to_be(clips: Path, name: str):
    index = probe(clips / f"{name}.mp4").index

    assert (index.n_frames, len(index.keys)) == (FRAMES[name], KEYS[name])


@pytest.mark.parametrize("name", CLIPS)
@pytest.mark.parametrize("chunk_frames", [17, 40, 100])
def test_every_pixel_of_every_frame_is_the_same(clips: Path, digest: str, name: str, chunk_frames: int):
    rows = in_chunks(clips / f"{name}.mp4", digest, chunk_frames)

    assert rows == one_pass(clips / f"{name}.mp4", digest)
    assert [row[0] for row in rows] == list(range(FRAMES[name]))


@pytest.mark.parametrize("name", CLIPS)
def test_a_stateless_analyzer_that_skips_frames_is_exact_too(clips: Path, name: str):
    path = clips / f"{name}.mp4"

    assert in_chunks(path, "snapshot", 23, every=7) == one_pass(path, "snapshot", every=7)


@pytest.mark.parametrize("name", CLIPS)
def test_motion_with_its_warmup_comes_within_two_percent_of_the_decisions(clips: Path, name: str):
    """Measured here: all decisions agree, scores differ by less than 0.004."""
    path = clips / f"{name}.mp4"
    whole_rows, rows = one_pass(path, "motion"), in_chunks(path, "motion", 50, warmup=100)

    agree = sum(bool(a[3]) == bool(b[3]) for a, b in zip(whole_rows, rows, strict=True)) / len(rows)
    apart = max(abs(a[2] - b[2]) for a, b in zip(whole_rows, rows, strict=True))
    assert agree >= 0.98
    assert apart < 0.01


def test_without_its_warmup_motion_would_be_further_off(clips: Path):
    path = clips / "bigbuckbunny.mp4"
    whole_rows = one_pass(path, "motion")

    def apart(warmup: int) -> float:
        rows = in_chunks(path, "motion", 30, warmup=warmup)
        return sum(abs(a[2] - b[2]) for a, b in zip(whole_rows, rows, strict=True))

    assert apart(100) < apart(0) / 10


def test_the_warmup_is_fed_and_not_reported(clips: Path, digest: str):
    chunk = plan(probe(clips / "bikes.mp4").index, chunk_frames=60, warmup=7)[1]

    found = analyze_chunk(place(clips / "bikes.mp4"), chunk.as_json(), "own_eyes:Counter")

    assert found["frames"][0][:3] == [chunk.first_frame, pytest.approx(chunk.first_frame / 25), 8.0]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("all-key.mp4", {"gop": 1}),
        ("open-gop.mkv", {"options": {"x264-params": "open-gop=1:bframes=3:keyint=12:scenecut=0"}}),
        ("transport.ts", {"options": {"bf": "2"}}),
        ("mpeg2.mpg", {"codec": "mpeg2video"}),
        ("no-stamps.h264", {"options": {"bf": "2"}}),
        ("divx.avi", {"codec": "mpeg4", "options": {"bf": "2"}}),
        ("vp8.webm", {"codec": "libvpx"}),
        ("odd-rate.mov", {"times": [n + (n // 5) * 3 for n in range(60)]}),
    ],
)
def test_other_containers_and_codecs_are_exact_too(
    make_video: Callable[..., Path], digest: str, name: str, how: dict[str, Any]
):
    path = make_video(name, **how)
    with av.open(str(path)) as container:
        decoded = sum(1 for _ in container.decode(video=0))

    rows = in_chunks(path, digest, 17)

    assert rows == one_pass(path, digest)
    assert [row[0] for row in rows] == list(range(decoded))


def test_a_variable_frame_rate_keeps_its_times(make_video: Callable[..., Path], digest: str):
    path = make_video("vfr.mkv", frames=20, times=[n * n for n in range(20)])

    rows = in_chunks(path, digest, 6)

    assert [row[1] for row in rows] == pytest.approx([n * n / 25 for n in range(20)], abs=0.001)
