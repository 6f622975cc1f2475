"""Network cameras for one benchmark: films in a circle, served by a real RTSP server that encodes nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av

ROOT = Path(__file__).resolve().parent.parent
#: GStreamer's bindings are Debian's, so they are there for Debian's Python alone.
SYSTEM_PYTHON = "/usr/bin/python3"
PACKAGES = "gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
_LOOK = "import gi; gi.require_version('GstRtspServer', '1.0'); gi.require_version('GstApp', '1.0')"
#: Length of the circle (s): the clips are no longer at this frame rate.
FILM_S = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """What all cameras of a set send."""

    clip: str
    width: int
    height: int
    fps: int = 15

    def __str__(self) -> str:
        """Show it as cameras are described."""
        return f"{self.width}x{self.height}@{self.fps}"


SMALL, LARGE = Kind("bikes.mp4", 640, 360), Kind("bigbuckbunny.mp4", 1280, 720)


@dataclass(frozen=True, slots=True)
class Cameras:
    """Cameras that run."""

    urls: list[str]
    pid: int  # of the server


def missing() -> str:
    """Return why there can be no cameras on this machine; "": there can."""
    try:
        subprocess.run([SYSTEM_PYTHON, "-c", _LOOK], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return f"there is no RTSP server (Debian: {PACKAGES})"
    absent = [kind.clip for kind in (SMALL, LARGE) if not (ROOT / "clips" / kind.clip).is_file()]
    return f"clips/{absent[0]} is not there (make clips)" if absent else ""


@contextmanager
def cameras(kind: Kind, count: int, folder: Path) -> Iterator[Cameras]:
    """Run so many cameras; they are gone at the end.

    Args:
        folder: keeps the film.
    """
    film = folder / f"{kind.width}x{kind.height}"
    if not film.exists():
        make_film(kind, film)
    plan = {f"cam{number}": {"folder": str(film), "fps": kind.fps} for number in range(count)}
    argv = [SYSTEM_PYTHON, str(ROOT / "benchmarks" / "_cameras_server.py"), json.dumps(plan)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            yield Cameras([f"rtsp://127.0.0.1:{port}/{mount}" for mount in plan], server.pid)
        finally:
            server.kill()


def make_film(kind: Kind, folder: Path) -> int:
    """Encode a clip as such cameras send it, one file a frame, with a key frame each second. Returns how many."""
    folder.mkdir(parents=True)
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = kind.width, kind.height, "yuv420p"
    encoder.time_base, encoder.framerate, encoder.gop_size = Fraction(1, kind.fps), Fraction(kind.fps), kind.fps
    # One slice a frame: FFmpeg takes a second one, sent over RTP, for a frame of its own now and then.
    encoder.options = {"tune": "zerolatency", "preset": "veryfast", "threads": "1", "x264-params": "sliced-threads=0"}
    count = 0
    with av.open(str(ROOT / "clips" / kind.clip)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number == FILM_S * kind.fps:
                break
            sized = frame.reformat(kind.width, kind.height, "yuv420p")
            sized.pts, sized.time_base, sized.pict_type = number, Fraction(1, kind.fps), av.video.frame.PictureType.NONE
            for packet in encoder.encode(sized):
                (folder / f"{count:05d}.h264").write_bytes(bytes(packet))
                count += 1
    return count
