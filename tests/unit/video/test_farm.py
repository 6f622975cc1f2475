"""A study from files to outputs, with chunks that run in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import cv2
import pytest

from jetq.errors import JobFailed, UsageError
from jetq.video.chunks import whole
from jetq.video.farm import Progress, analyze_files
from jetq.video.outputs import as_line
from jetq.video.place import Place
from jetq.video.run import analyze_chunk
from jetq.video.source import probe
from jetq.video.study import Study, prepare


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def one_pass(path: Path, analyzer: str, **options: Any) -> list[dict[str, Any]]:
    place = {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}
    found = analyze_chunk(place, whole(probe(path).index).as_json(), analyzer, options)
    return [as_line(row) for row in found["frames"]]


def test_the_merged_lines_are_those_of_one_pass(clips: Path, tmp_path: Path, crew: Any):
    study = Study("snapshot", {"every": 5}, chunk_s=1)
    report = analyze_files(prepare([clips], study, tmp_path / "out"), crew.crew())

    for file in report.files:
        assert lines(tmp_path / "out" / f"{file.name}.jsonl") == one_pass(Path(file.file), "snapshot", every=5)
    assert report.frames == 622
    assert report.chunks == len(crew.calls) > 15


def test_all_outputs_are_there_and_nothing_else(clips: Path, tmp_path: Path, crew: Any):
    out = tmp_path / "out"
    report = analyze_files(prepare([clips / "bikes.mp4"], Study(chunk_s=2, annotate=True), out), crew.crew())

    assert sorted(p.name for p in out.iterdir()) == ["bikes.jsonl", "bikes.mp4", "contact-sheet.png", "summary.json"]
    assert json.loads((out / "summary.json").read_text()) == json.loads(json.dumps(report.as_json()))
    picture = cv2.imread(str(out / "contact-sheet.png"))
    assert picture is not None
    assert min(picture.shape[:2]) > 300
    assert report.files[0].hits > 100


def test_the_annotated_film_has_every_frame_at_its_time(clips: Path, tmp_path: Path, crew: Any):
    analyze_files(prepare([clips / "bikes.mp4"], Study(annotate=True), tmp_path), crew.crew())

    with av.open(str(tmp_path / "bikes.mp4")) as film:
        times = [frame.time for frame in film.decode(video=0)]
    assert len(times) == 250
    assert times == pytest.approx([n / 25 for n in range(250)], abs=0.002)


def test_snapshots_are_written_as_pictures(clips: Path, tmp_path: Path, crew: Any):
    study = Study("snapshot", {"every": 30}, chunk_s=1)
    analyze_files(prepare([clips / "carphone_pristine.mp4"], study, tmp_path), crew.crew())

    names = sorted(p.name for p in (tmp_path / "carphone_pristine-snapshots").iterdir())
    assert names == ["frame-000000.jpg", "frame-000030.jpg", "frame-000060.jpg", "frame-000090.jpg"]


def test_each_repeat_has_outputs_of_its_own(clips: Path, tmp_path: Path, crew: Any):
    study = Study(chunk_s=2, repeat=3)
    report = analyze_files(prepare([clips / "carphone_distorted.mp4"], study, tmp_path), crew.crew())

    assert [file.name for file in report.files] == [f"carphone_distorted{end}" for end in ("", "-2", "-3")]
    assert len({(tmp_path / f"{file.name}.jsonl").read_bytes() for file in report.files}) == 1


def test_the_report_adds_up(clips: Path, tmp_path: Path, crew: Any):
    report = analyze_files(prepare([clips], Study(chunk_s=2), tmp_path), crew.crew())

    assert sum(node.frames for node in report.nodes) == sum(file.frames for file in report.files) == 622
    assert sum(node.chunks for node in report.nodes) == report.chunks
    assert [node.node for node in report.nodes] == ["node-1", "node-2", "node-3"]
    assert report.sent_bytes > 500_000


def test_progress_is_told_chunk_by_chunk(clips: Path, tmp_path: Path, crew: Any):
    told: list[Progress] = []
    analyze_files(prepare([clips / "bikes.mp4"], Study(chunk_s=1), tmp_path), crew.crew(), progress=told.append)

    assert [now.chunks_done for now in told] == list(range(1, len(crew.calls) + 1))
    assert (told[-1].frames_done, told[-1].frames) == (250, 250)


def test_a_failed_chunk_ends_the_run_and_leaves_nothing(clips: Path, tmp_path: Path, crew: Any, digest: str):
    out = tmp_path / "out"
    prepared = prepare([clips / "bikes.mp4"], Study("own_eyes:Fails", chunk_s=1), out)

    with pytest.raises(JobFailed, match=r"bikes\.mp4, frames \d+-\d+ on node-\d: .*the lens is covered.*nothing was"):
        analyze_files(prepared, crew.crew())

    assert list(out.iterdir()) == []
    assert all(job.row().ended or job.cancelled_because for job in crew.jobs)


def test_an_interrupted_run_cancels_what_is_left(clips: Path, tmp_path: Path, crew: Any):
    def interrupt(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze_files(prepare([clips], Study(chunk_s=1), tmp_path / "out"), crew.crew(), progress=interrupt)

    assert sum(bool(job.cancelled_because) for job in crew.jobs) >= len(crew.jobs) - 32
    assert list((tmp_path / "out").iterdir()) == []
    assert not any(thread.name == "fileserver" for thread in threading.enumerate())


def test_an_output_that_cannot_be_placed_leaves_no_half(clips: Path, tmp_path: Path, crew: Any):
    prepared = prepare([clips / "carphone_distorted.mp4"], Study(), tmp_path / "out")
    (tmp_path / "out").rmdir()
    (tmp_path / "out").write_text("a file now")

    with pytest.raises(Exception, match="cannot be written"):
        analyze_files(prepared, crew.crew())


def test_nodes_read_a_shared_file_where_it_lies(clips: Path, tmp_path: Path, crew: Any, monkeypatch: Any):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "film.mp4").write_bytes((clips / "carphone_pristine.mp4").read_bytes())
    monkeypatch.setenv("JETQ_SHARED", str(shared))

    report = analyze_files(prepare([shared / "film.mp4"], Study(), tmp_path / "out"), crew.crew(shared=shared))

    assert crew.calls[0]["place"]["shared"] == "film.mp4"
    assert report.sent_bytes == 0
    assert report.frames == 120


def test_another_file_of_that_name_in_the_shared_folder_is_not_taken(tmp_path: Path, monkeypatch: Any):
    (tmp_path / "film.mp4").write_bytes(b"another film")
    monkeypatch.setenv("JETQ_SHARED", str(tmp_path))

    assert Place("film.mp4", "http://here", 999, "film.mp4").locate() == "http://here"
    assert Place("film.mp4", "http://here", 999, "../../etc/passwd").locate() == "http://here"


def test_more_slots_make_finer_chunks(clips: Path, tmp_path: Path):
    prepared = prepare([clips / "bikes.mp4"], Study("snapshot"), tmp_path)

    assert len(prepared.chunks(1)[0]) < len(prepared.chunks(16)[0])


def test_chunks_are_not_mostly_warmup(clips: Path, tmp_path: Path):
    prepared = prepare([clips / "bikes.mp4"], Study("motion"), tmp_path)

    assert sum(chunk.warmup for chunk in prepared.chunks(100)[0]) <= 250 / 2


def test_a_damaged_film_says_how_much_is_lost(make_video: Callable[..., Path], tmp_path: Path, crew: Any):
    path = make_video("hurt.ts", frames=80, gop=20)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 6000] = bytes(6000)
    path.write_bytes(raw)

    report = analyze_files(prepare([path], Study("snapshot", {"every": 1}, chunk_s=1), tmp_path / "o"), crew.crew())

    assert 40 < report.frames <= 80
    assert report.files[0].lost_frames == probe(path).index.n_frames - report.frames


@pytest.mark.parametrize("wrong", [{"chunk_s": 0}, {"chunk_s": float("nan")}, {"repeat": 0}])
def test_a_study_that_makes_no_sense_is_refused(wrong: dict[str, Any]):
    with pytest.raises(UsageError):
        Study(**wrong)


def test_an_output_folder_that_cannot_be_made_is_refused(clips: Path, tmp_path: Path):
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="--out"):
        prepare([clips / "bikes.mp4"], Study(), tmp_path / "file" / "out")
