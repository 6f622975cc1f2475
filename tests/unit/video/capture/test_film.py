"""Files as cameras: their pace, their end, and what is no film."""

from __future__ import annotations

import os
import random
import shutil
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetq.errors import CameraFault
from jetq.model.stream import StreamSpec
from jetq.video.capture.chain import open_camera
from jetq.video.capture.film import Pace
from tests.unit.video.capture.conftest import no, yes


def rest_of(capture) -> list[float]:
    """Return when each frame came, to the end."""
    times: list[float] = []
    while (grabbed := capture.grab(wanted=no)) is not None:
        times.append(grabbed.at_s)
    return times


def test_a_file_comes_as_fast_as_it_was_filmed_and_then_it_is_over(make_video, opened):
    capture = opened(f"file:{make_video(frames=20, rate=25)}")
    times = rest_of(capture)

    described = capture.described
    assert (described.backend, described.codec, described.fps) == ("pyav", "h264", 25.0)
    assert (described.width, described.height, described.hardware) == (96, 64, False)
    assert len(times) == 20
    assert times[-1] - times[0] == pytest.approx(19 / 25, abs=0.2)
    assert capture.grab(wanted=yes) is None


def test_frames_that_stand_unevenly_in_the_film_come_unevenly(make_video, opened):
    times = rest_of(opened(f"file:{make_video(frames=4, rate=100, times=[0, 10, 12, 60])}"))

    steps = [after - before for before, after in pairwise(times)]
    assert steps == pytest.approx([0.10, 0.02, 0.48], abs=0.08)


def test_a_loop_begins_again_at_the_end_without_a_pause(make_video, opened):
    capture = opened(f"file:{make_video(frames=10, rate=50)}", loop=True)
    grabbed = [capture.grab(wanted=yes) for _ in range(25)]
    shown = [one.picture() for one in grabbed]

    assert grabbed[-1].at_s - grabbed[0].at_s == pytest.approx(24 / 50, abs=0.2)
    assert all(np.array_equal(shown[n], shown[n + 10]) for n in range(10))
    assert not np.array_equal(shown[0], shown[5])


def test_a_picture_may_be_made_later_and_is_still_its_frame(make_video, opened):
    path = make_video(frames=10, rate=200)
    early, late = opened(f"file:{path}"), opened(f"file:{path}")
    at_once = [early.grab(wanted=yes).picture() for _ in range(10)]
    kept = [late.grab(wanted=yes) for _ in range(10)]

    assert all(np.array_equal(one, other.picture()) for one, other in zip(at_once, kept, strict=True))


@pytest.mark.parametrize("name", ["bikes", "bigbuckbunny", "carphone_pristine", "carphone_distorted"])
def test_real_clips_play(clips, opened, name):
    capture = opened(f"file:{clips}/{name}.mp4")
    first = capture.grab(wanted=yes).picture()

    assert first.shape == (capture.described.height, capture.described.width, 3)
    assert 10 <= capture.described.fps <= 60


@pytest.mark.parametrize(("codec", "name"), [("libx264", "a.mkv"), ("mpeg4", "a.avi"), ("mjpeg", "a.mjpeg")])
def test_other_containers_play_in_their_pace(make_video, opened, codec, name):
    options = {"strict": "unofficial"} if codec == "mjpeg" else {}
    times = rest_of(opened(f"file:{make_video(name, frames=13, rate=25, codec=codec, options=options)}"))

    assert len(times) == 13
    assert times[-1] - times[0] == pytest.approx(12 / 25, abs=0.2)


def test_a_missing_file_may_still_come(tmp_path, make_video, opened):
    with pytest.raises(CameraFault, match=r"file:/.*/later.mp4: there is no such file on this node") as fault:
        opened(f"file:{tmp_path}/later.mp4")
    assert not fault.value.hopeless

    make_video("later.mp4", frames=2)
    assert opened(f"file:{tmp_path}/later.mp4").grab(wanted=yes) is not None


def test_what_holds_no_video_is_hopeless_and_says_why(tmp_path, sound, make_video, opened):
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("On the fifth day it rained.\n" * 2000)
    (tmp_path / "noise.mp4").write_bytes(random.Random(5).randbytes(20_000))
    whole = make_video("whole.mp4").read_bytes()
    (tmp_path / "head.mp4").write_bytes(whole[:400])
    (tmp_path / "tail.mp4").write_bytes(whole[len(whole) // 2 :])
    (tmp_path / "clip.mp4").write_bytes(whole)
    (tmp_path / "list.m3u8").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{tmp_path}/clip.mp4\n")
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile clip.mp4\n")
    (tmp_path / "net.sdp").write_text(
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 26\n"
    )
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "folder.mp4").mkdir()
    why = {
        "sound.mp4": "sound only",
        "empty.mp4": "empty (0 bytes)",
        "text.mp4": "no video",
        "noise.mp4": "no video",
        "head.mp4": "no video",
        "tail.mp4": "no video",
        "list.m3u8": "no video",
        "list.mp4": "no video",
        "net.sdp": "no video",
        "pipe.mp4": "no file",
        "folder.mp4": "no file",
    }
    for name, words in why.items():
        with pytest.raises(CameraFault) as fault:
            opened(f"file:{tmp_path}/{name}")

        assert (words in str(fault.value), fault.value.hopeless) == (True, True), f"{name}: {fault.value}"
        assert str(fault.value).startswith(f"file:{tmp_path}/{name}: ")


def test_a_file_that_was_cut_off_plays_as_far_as_it_goes(tmp_path, make_video, opened):
    whole = make_video("whole.mkv", frames=60, rate=200).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) * 2 // 3])

    assert 20 <= len(rest_of(opened(f"file:{tmp_path}/cut.mkv"))) < 60


def test_a_file_that_is_damaged_in_the_middle_never_does_worse_than_a_fault(tmp_path, make_video, opened):
    whole = make_video("whole.mp4", frames=40, rate=200).read_bytes()
    for seed in range(25):
        dice, damaged = random.Random(seed), bytearray(whole)
        for _ in range(dice.choice([1, 20, 400])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        (tmp_path / "damaged.mp4").write_bytes(damaged)
        began = time.monotonic()
        try:
            capture = open_camera(StreamSpec(f"file:{tmp_path}/damaged.mp4", stall_s=1), None)
            for _ in range(40):
                grabbed = capture.grab(wanted=yes)
                if grabbed is None or time.monotonic() - began > 1:
                    break
                assert grabbed.picture().ndim == 3
            capture.close()
        except CameraFault:
            continue


def test_a_loop_whose_file_is_taken_away_ends_with_a_fault_that_may_heal(tmp_path, make_video, opened):
    capture = opened(f"file:{make_video('gone.mp4', frames=5, rate=100)}", loop=True)
    shutil.move(tmp_path / "gone.mp4", tmp_path / "elsewhere.mp4")
    with pytest.raises(CameraFault, match="no such file") as fault:
        for _ in range(20):
            capture.grab(wanted=no)

    assert not fault.value.hopeless


film_times = st.one_of(st.none(), st.floats(allow_nan=False, min_value=-1e9, max_value=1e9))


@given(
    times=st.lists(film_times, min_size=2, max_size=30),
    lateness=st.lists(st.floats(min_value=0, max_value=5), min_size=30, max_size=30),
)
@settings(deadline=None, max_examples=300)
def test_no_frame_is_due_before_the_one_before_it_or_long_after(times, lateness):
    pace, now_s, before_s = Pace(0.04, 5.0), 100.0, None
    for film_s, late_s in zip(times, lateness, strict=False):
        due_s = pace.due_s(film_s, now_s)
        if before_s is not None:
            assert before_s <= due_s <= max(before_s, now_s) + 5.0
        now_s, before_s = max(now_s, due_s) + late_s, due_s


def test_a_film_of_one_picture_that_loops_does_not_race(make_video, opened):
    capture = opened(f"file:{make_video(frames=1, rate=20)}", loop=True)
    grabbed = [capture.grab(wanted=yes) for _ in range(6)]

    assert grabbed[-1].at_s - grabbed[0].at_s == pytest.approx(5 / 20, abs=0.1)


def test_a_machine_that_is_too_slow_plays_slower_and_does_not_hurry_after_it():
    pace = Pace(0.04, 5.0)
    assert pace.due_s(0.0, 100.0) == 100.0
    assert pace.due_s(0.04, 100.5) == pytest.approx(100.04)  # a little late: the next ones make up for it
    assert pace.due_s(0.08, 103.0) == 103.0
    assert pace.due_s(0.12, 103.0) == pytest.approx(103.04)
