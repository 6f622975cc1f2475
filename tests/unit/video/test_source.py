"""What is no video is refused in one line, before anything is sent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import pytest

from jetq.errors import UsageError, VideoUnreadable
from jetq.video.chunks import plan, whole
from jetq.video.inputs import find_files, probe_all
from jetq.video.source import Reader, probe


def refusal(*paths: Path) -> str:
    with pytest.raises(UsageError) as caught:
        probe_all(find_files(paths))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_clip_says_what_it_holds(clips: Path):
    clip = probe(clips / "bikes.mp4")

    assert (clip.width, clip.height, clip.fps, clip.duration_s) == (640, 272, 25.0, 10.0)
    assert clip.index.keys == (0, 30, 76, 137, 187, 242)


def test_a_missing_file_is_refused(tmp_path: Path):
    assert refusal(tmp_path / "nowhere.mp4").endswith("nowhere.mp4: no such file or folder")


def test_an_empty_file_is_refused(tmp_path: Path):
    (tmp_path / "empty.mp4").touch()

    assert "file is empty (0 bytes)" in refusal(tmp_path / "empty.mp4")


def test_a_corrupt_file_is_refused(tmp_path: Path):
    (tmp_path / "noise.mp4").write_bytes(os.urandom(50_000))

    assert "not a video, or damaged" in refusal(tmp_path / "noise.mp4")


def test_a_file_cut_off_before_its_table_is_refused(tmp_path: Path, clips: Path):
    (tmp_path / "half.mp4").write_bytes((clips / "carphone_pristine.mp4").read_bytes()[:1000])

    assert "half.mp4" in refusal(tmp_path / "half.mp4")


def test_text_is_no_video(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("buy milk\n" * 50)

    assert "holds no video" in refusal(tmp_path / "notes.txt")


def test_sound_alone_is_refused(sound: Path):
    assert "holds sound only" in refusal(sound)


def test_a_song_with_a_cover_picture_is_refused(tmp_path: Path, sound: Path, make_video: Callable[..., Path]):
    cover = make_video("cover.mkv", frames=1, codec="mjpeg", options={"strict": "-1"})
    path = tmp_path / "song.mp4"
    with av.open(str(sound)) as music, av.open(str(cover)) as picture, av.open(str(path), "w") as out:
        streams = [out.add_stream_from_template(s) for s in (picture.streams.video[0], music.streams.audio[0])]
        streams[0].disposition = av.stream.Disposition.attached_pic
        for container, stream in zip((picture, music), streams, strict=True):
            for packet in container.demux():
                if packet.size:
                    packet.stream = stream
                    out.mux(packet)

    assert "holds sound only" in refusal(path)


def test_a_video_whose_frames_are_all_damaged_is_refused(make_video: Callable[..., Path]):
    path = make_video("broken.mkv", frames=30)
    raw = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        spans = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    for position, size in spans:
        start = raw.find(b"\x00\x00", position) if position else 0
        raw[start + 4 : start + size] = bytes(size - 4)
    path.write_bytes(raw)

    assert "broken.mkv" in refusal(path)


def test_a_pipe_is_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.mp4")

    assert "not a regular file" in refusal(tmp_path / "pipe.mp4")


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path, clips: Path):
    (tmp_path / "empty.mp4").touch()

    text = refusal(tmp_path / "empty.mp4", clips / "bikes.mp4", tmp_path / "nowhere.mp4")

    assert "empty.mp4" in text
    assert "nowhere.mp4" in text
    assert "bikes" not in text


def test_a_folder_stands_for_its_videos_in_order(clips: Path, tmp_path: Path):
    for name in ("b.mp4", "a.MP4", "c.txt"):
        (tmp_path / name).write_bytes((clips / "carphone_distorted.mp4").read_bytes())

    assert [path.name for path in find_files([tmp_path])] == ["a.MP4", "b.mp4"]


def test_a_folder_without_videos_is_refused(tmp_path: Path):
    assert "no video in this folder" in refusal(tmp_path)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_read_is_refused(tmp_path: Path, what: str):
    """Asked as a user without rights: root may read everything."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o755)
    path = tmp_path / "locked"
    path.mkdir() if what == "folder" else path.write_bytes(b"x")
    path.chmod(0o000)
    drop = "os.setgroups([]), os.setgid(65534), os.setuid(65534)" if os.getuid() == 0 else ""
    script = (
        "import os, sys, pathlib\nfrom jetq.video.inputs import find_files\nfrom jetq.errors import UsageError\n"
        f"{drop}\ntry:\n find_files([pathlib.Path(sys.argv[1])])\nexcept UsageError as exc:\n print(exc)"
    )

    said = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)

    path.chmod(0o755)
    assert "cannot be read (" in said.stdout, said.stderr
    assert said.stdout.count("\n") == 1


def test_a_file_cut_off_in_the_middle_gives_the_frames_it_has(tmp_path: Path, make_video: Callable[..., Path]):
    path = make_video("long.ts", frames=60)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])

    clip = probe(path)
    with Reader(str(path)) as reader:
        frames = list(reader.frames(whole(clip.index)))

    assert 10 < len(frames) < 60
    assert abs(len(frames) - clip.index.n_frames) <= 1


def test_a_video_that_is_gone_is_said_plainly(clips: Path):
    with pytest.raises(VideoUnreadable, match=r"^bikes\.mp4: cannot be opened"):
        Reader("http://127.0.0.1:9/secret/0/bikes.mp4", label="bikes.mp4")


def test_only_what_a_chunk_needs_is_decoded(clips: Path):
    clip = probe(clips / "bikes.mp4")
    chunk = plan(clip.index, chunk_frames=60)[2]

    with Reader(str(clip.path)) as reader:
        frames = [frame.index for frame in reader.frames(chunk)]

    assert frames == list(range(137, 187))
    assert reader.decoded < 60
