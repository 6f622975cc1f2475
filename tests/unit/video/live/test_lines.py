"""Results are lines of JSON in files that take turns; what a kill or a full disk tears is mended, and counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jetq.video.live import shelf as live_shelf
from jetq.video.live.growing import Growing
from jetq.video.live.lines import Lines
from jetq.video.live.shelf import Shelf
from jetq.video.live.sink import Kept

#: 2026-11-30 12:00:00 UTC, when the stream of the fixture `seen` began.
NOON = 1_796_040_000.0


def shelf(folder: Path, *, most_bytes: int = 8 * 1024**2, floor_bytes: int | None = 0) -> Shelf:
    return Shelf(folder, "results", "jsonl", most_bytes=most_bytes, floor_bytes=floor_bytes)


def numbers(folder: Path) -> list[int]:
    lines = [line for file in sorted(folder.glob("results-*")) for line in file.read_text().splitlines()]
    return [json.loads(line)["n"] for line in lines]


def test_a_result_is_one_line(tmp_path, seen):
    sink = Lines(shelf(tmp_path / "files"))
    sink.take(seen(1, brightness=0.25))
    sink.close()

    [file] = (tmp_path / "files").iterdir()
    assert file.name == "results-00000001-20261130T120000Z.jsonl"
    assert json.loads(file.read_text()) == {
        **{"at": NOON + 0.1, "n": 1, "score": 0.5, "boxes": [[10, 20, 30, 40]]},
        **{"brightness": 0.25, "stream": "gate", "token": "1-abc"},
    }
    assert sink.kept == Kept(1, 0, "")


def test_files_take_turns_and_the_oldest_go(tmp_path, seen):
    sink = Lines(shelf(tmp_path, most_bytes=8 * 1000))
    for number in range(1, 201):
        sink.take(seen(number))

    names = sorted(file.name for file in tmp_path.iterdir())
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 8 * 1000
    assert 6 <= len(names) <= 8
    assert not names[0].startswith("results-00000001-")
    assert numbers(tmp_path) == list(range(numbers(tmp_path)[0], 201))
    assert sink.kept.kept == 200


def test_of_too_many_files_the_oldest_go_however_small_they_are(tmp_path, seen, monkeypatch):
    monkeypatch.setattr(live_shelf, "MOST_FILES", 3)
    sink = Lines(shelf(tmp_path, most_bytes=8 * 1000))
    for number in range(1, 61):
        sink.take(seen(number))

    assert len(list(tmp_path.iterdir())) == 3
    assert numbers(tmp_path)[-1] == 60


@pytest.mark.parametrize("torn", [b'{"at":1,"n":9', b"\0" * 70_000, b'{"n":9}\n{"n":1'])
def test_a_torn_line_is_taken_back_and_the_file_gone_on_with(tmp_path, seen, torn):
    first = Lines(shelf(tmp_path))
    first.take(seen(1))
    first.close()
    [file] = tmp_path.iterdir()
    with file.open("ab") as out:
        out.write(torn)

    second = Lines(shelf(tmp_path))
    second.take(seen(2))

    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert [n for n in numbers(tmp_path) if n != 9] == [1, 2]


def test_a_runner_that_is_killed_leaves_whole_lines_but_for_the_last(tmp_path, seen):
    code = """
import sys
from pathlib import Path
from jetq.video.analyzers.base import Result
from jetq.video.live.lines import Lines
from jetq.video.live.shelf import Shelf
from jetq.video.live.sink import Seen
sink = Lines(Shelf(Path(sys.argv[1]), "results", "jsonl", most_bytes=1 << 22, floor_bytes=0))
number = 0
while True:
    number += 1
    sink.take(Seen("gate", "t", number, 1.8e9, Result(0.1), lambda: None))
    if number == 500:
        print("many", flush=True)
"""
    runner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    runner.stdout.readline()
    runner.send_signal(signal.SIGKILL)
    runner.wait()

    sink = Lines(shelf(tmp_path, most_bytes=1 << 22))
    sink.take(seen(0))

    found = numbers(tmp_path)
    assert found[-1] == 0
    assert found[:-1] == list(range(found[0], found[0] + len(found) - 1))
    assert found[-2] >= 500


def test_a_file_that_another_process_writes_is_left_alone(tmp_path, seen):
    other = Lines(shelf(tmp_path))
    other.take(seen(1))

    sink = Lines(shelf(tmp_path))
    sink.take(seen(2))

    assert [file.name.split("-")[1] for file in sorted(tmp_path.iterdir())] == ["00000001", "00000002"]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x"])
def test_what_json_has_not_is_dropped_and_said(tmp_path, seen, value):
    sink = Lines(shelf(tmp_path))
    sink.take(seen(1, odd=value))
    dropped = sink.kept
    sink.take(seen(2))

    assert (dropped.dropped, dropped.why.partition(" (")[0]) == (1, "its analyzer gave what JSON has not")
    assert sink.kept == Kept(1, 1, "")
    assert numbers(tmp_path) == [2]


def test_on_a_full_disk_the_oldest_files_go_first(tiny_disk, seen):
    sink = Lines(shelf(tiny_disk.folder / "files", most_bytes=8 * 64 * 1024))
    number = 0
    while len(list((tiny_disk.folder / "files").glob("*"))) < 5:
        number += 1
        sink.take(seen(number))
    tiny_disk.fill()
    for _ in range(600):
        number += 1
        sink.take(seen(number))

    assert sink.kept == Kept(number, 0, "")
    assert numbers(tiny_disk.folder / "files")[-1] == number
    assert len(list((tiny_disk.folder / "files").glob("*"))) < 5


def test_with_nothing_that_may_go_results_are_dropped_until_there_is_room(tiny_disk, seen, wait_until):
    folder = tiny_disk.folder / "files"
    folder.mkdir()
    (folder / "precious.txt").write_text("of the analyzer")
    sink = Lines(shelf(folder))
    sink.take(seen(1))
    tiny_disk.fill()
    number = 1
    while not sink.kept.dropped:
        number += 1
        sink.take(seen(number))
    full = sink.kept
    whole = numbers(folder)
    tiny_disk.free()

    def goes_on() -> bool:
        sink.take(seen(number + 1))
        return not sink.kept.why

    wait_until(goes_on)
    assert "No space left" in full.why or "the disk is full" in full.why
    assert whole == list(range(1, number))
    assert numbers(folder) == [*whole, number + 1]
    assert (folder / "precious.txt").exists()


def test_some_of_a_disk_stays_free(tiny_disk, seen):
    folder = tiny_disk.folder / "files"
    tiny_disk.fill(leave_bytes=2 * 1024**2)
    sink = Lines(shelf(folder, floor_bytes=3 * 1024**2))
    sink.take(seen(1))

    assert sink.kept.why == "the disk is full: 2 MB are free, and 3 MB of it stay so"
    assert not list(folder.glob("*"))


def test_a_folder_that_cannot_be_made_is_said_and_tried_again(tmp_path, seen, wait_until):
    (tmp_path / "files").write_text("a file")
    sink = Lines(shelf(tmp_path / "files"))
    sink.take(seen(1))
    fault = sink.kept.why
    (tmp_path / "files").unlink()

    def goes_on() -> bool:
        sink.take(seen(2))
        return sink.kept.kept > 0

    wait_until(goes_on)
    assert fault.startswith("the disk ")
    assert numbers(tmp_path / "files") == [2]


def test_a_part_that_does_not_fit_is_taken_back(tiny_disk):
    path = tiny_disk.folder / "x"
    file = Growing(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND))
    file.add(b"whole")
    tiny_disk.fill(leave_bytes=4096 * 3)

    with pytest.raises(OSError, match="No space"):
        file.add(b"x" * 1024**2)

    assert path.read_bytes() == b"whole"
    file.close()
