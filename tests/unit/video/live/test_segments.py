"""What was looked at is a film of a minute after the other, each readable at every moment, within a budget."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import av
import numpy as np

from jetq.video.live.segments import Segments
from jetq.video.live.shelf import Shelf
from jetq.video.live.sink import Kept

#: When the stream of the fixture `seen` began.
NOON = 1_796_040_000.0


def shelf(folder: Path, *, most_bytes: int = 64 * 1024**2, floor_bytes: int | None = 0) -> Shelf:
    return Shelf(folder, "film", "mp4", most_bytes=most_bytes, floor_bytes=floor_bytes)


def films(folder: Path) -> list[Path]:
    return sorted(folder.glob("film-*.mp4"))


def frames(path: Path) -> list[tuple[float, np.ndarray]]:
    with av.open(str(path)) as film:
        return [(frame.time, frame.to_ndarray(format="bgr24")) for frame in film.decode(video=0)]


def test_a_segment_shows_each_result_at_its_time_with_its_boxes(tmp_path, seen):
    sink = Segments(shelf(tmp_path / "files"), fps=10)
    for number in range(1, 36):
        sink.take(seen(number, size=(321, 181), boxes=((100, 60, 80, 50),)))
    sink.close()

    [film] = films(tmp_path / "files")
    shown = frames(film)
    plain = seen(35, size=(321, 181)).picture()[:180, :320].astype(int)
    drawn = np.abs(shown[-1][1].astype(int) - plain).sum(axis=2) > 200
    assert film.name == "film-00000001-20261130T120000Z.mp4"
    assert [round(t_s, 2) for t_s, _ in shown] == [round(n / 10, 2) for n in range(35)]
    assert shown[0][1].shape == (180, 320, 3)
    assert drawn[60:62, 100:180].mean() > 0.5  # the upper edge of the box
    assert sink.kept == Kept(35, 0, "")


def test_a_new_segment_begins_after_its_time_and_where_the_picture_or_the_clock_changes(tmp_path, seen):
    sink = Segments(shelf(tmp_path), fps=10, segment_s=2.0)
    for number in range(1, 46):
        sink.take(seen(number))  # 0.1 .. 4.5 s: three films
    sink.take(seen(46, size=(96, 64)))
    sink.take(seen(47, size=(96, 64), at_s=NOON - 3600))
    sink.take(seen(48, size=(96, 64), at_s=NOON - 3600))
    sink.close()

    assert [len(frames(film)) for film in films(tmp_path)] == [20, 20, 5, 1, 2]
    assert sink.kept == Kept(48, 0, "")


def test_large_pictures_are_made_smaller(tmp_path, seen):
    sink = Segments(shelf(tmp_path), fps=10)
    sink.take(seen(1, size=(2560, 1440)))
    sink.close()

    [film] = films(tmp_path)
    assert frames(film)[0][1].shape == (720, 1280, 3)


KILLED = """
import sys
from pathlib import Path
import numpy as np
from jetq.video.analyzers.base import Result
from jetq.video.live.segments import Segments
from jetq.video.live.shelf import Shelf
from jetq.video.live.sink import Seen
sink = Segments(Shelf(Path(sys.argv[1]), "film", "mp4", most_bytes=1 << 26, floor_bytes=0), fps=10)
picture = np.zeros((90, 160, 3), np.uint8)
for number in range(1, 48):
    sink.take(Seen("gate", "t", number, 1.8e9 + number / 10, Result(0.1), lambda: picture))
print("many", flush=True)
sys.stdin.read()
"""


def test_a_film_can_be_read_after_a_kill_and_while_it_grows(tmp_path):
    runner = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    runner.stdout.readline()
    [film] = films(tmp_path)
    growing = len(frames(film))
    runner.send_signal(signal.SIGKILL)
    runner.wait()

    assert growing == len(frames(film))
    assert growing >= 47 - 11  # the second that was in the making is lost


def test_half_a_fragment_is_taken_off_by_the_next_runner(tmp_path, seen):
    first = Segments(shelf(tmp_path), fps=10)
    for number in range(1, 41):
        first.take(seen(number))
    first.close()
    [film] = films(tmp_path)
    whole = film.read_bytes()
    film.write_bytes(whole[: whole.rindex(b"mdat") + 100])

    second = Segments(shelf(tmp_path), fps=10)
    second.take(seen(41))
    second.close()

    assert 20 <= len(frames(film)) < 40
    assert [len(frames(path)) for path in films(tmp_path)][1:] == [1]


def test_a_film_without_a_frame_is_removed(tmp_path, seen):
    (tmp_path / "film-00000007-20261130T115900Z.mp4").write_bytes(b"\0\0\0\x08ftyp")
    sink = Segments(shelf(tmp_path), fps=10)
    sink.take(seen(1))
    sink.close()

    assert [film.name.split("-")[1] for film in films(tmp_path)] == ["00000001"]


def test_the_oldest_films_go_beyond_the_budget(tmp_path, seen):
    sink = Segments(shelf(tmp_path, most_bytes=8 * 50_000), fps=10)
    for number in range(1, 400):
        sink.take(seen(number))
    sink.close()

    there = films(tmp_path)
    assert sum(film.stat().st_size for film in there) < 9 * 50_000
    assert int(there[-1].name.split("-")[1]) > len(there) >= 3
    assert sink.kept.kept == 399


def test_a_full_disk_takes_the_oldest_films_then_frames_are_dropped_and_it_goes_on(tiny_disk, seen, wait_until):
    folder = tiny_disk.folder / "files"
    sink = Segments(shelf(folder), fps=10, segment_s=2.0)
    for number in range(1, 70):
        sink.take(seen(number))
    before = films(folder)
    number = 70
    while not sink.kept.dropped:
        tiny_disk.fill()  # whatever was given up
        sink.take(seen(number))
        number += 1
    full, left = sink.kept, films(folder)
    readable = [len(frames(film)) for film in left]
    tiny_disk.free()

    def goes_on() -> bool:
        nonlocal number
        number += 1
        sink.take(seen(number))
        return not sink.kept.why

    wait_until(goes_on)
    sink.close()

    assert len(before) >= 3
    assert before[0] not in left
    assert "No space left" in full.why or "the disk is full" in full.why
    assert all(readable)
    assert frames(films(folder)[-1])
    assert sum(len(frames(film)) for film in films(folder)) <= sink.kept.kept


def test_boxes_that_cannot_be_drawn_are_said_and_the_next_are_drawn(tmp_path, seen, wait_until):
    sink = Segments(shelf(tmp_path), fps=10)
    sink.take(seen(1, boxes=((1, 2, float("nan"), 4),)))
    fault = sink.kept

    def goes_on() -> bool:
        sink.take(seen(2))
        sink.close()
        return sink.kept.kept > 0

    wait_until(goes_on)
    assert (fault.dropped, "cannot be drawn" in fault.why) == (1, True)
