"""Serve films as network cameras: a real RTSP server of GStreamer that encodes nothing. Run with the system's Python.

argv[1] is JSON: mount -> folder of a film (``*.h264``, one frame each, by name) and its frame rate. Each is played in a
circle, live, once for all who watch it. Once it listens it writes its port to stdout, and serves until stdin ends.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - the versions come first

_CAMERA = (
    "( appsrc name=film is-live=true format=time do-timestamp=true "
    "caps=video/x-h264,stream-format=byte-stream,alignment=au,framerate={fps}/1 "
    "! h264parse ! rtph264pay name=pay0 pt=96 config-interval=-1 )"
)


class Camera(GstRtspServer.RTSPMediaFactory):  # type: ignore[misc]
    """One mount."""

    def __init__(self, frames: list[bytes], fps: int) -> None:
        super().__init__()
        self._frames, self._fps, self._number = frames, fps, 0
        self._media: Any = None
        self._source: Any = None
        self._began_s = 0.0
        self.set_launch(_CAMERA.format(fps=fps))
        self.set_shared(True)
        self.connect("media-configure", self._configured)

    def _configured(self, _factory: object, media: Any) -> None:
        """Play, to whoever watches now, from a key frame on."""
        self._media, self._number = media, 0
        self._source = media.get_element().get_by_name_recurse_up("film")
        self._began_s = time.monotonic()
        media.connect("unprepared", self._over)

    def _over(self, media: object) -> None:
        """Stop, unless somebody else watches by now: the end of the last medium may be told after the next began."""
        if media is self._media:
            self._media = self._source = None

    def play(self) -> bool:
        """Send the frame whose time has come."""
        if self._source is not None and self._number <= (time.monotonic() - self._began_s) * self._fps:
            frame = Gst.Buffer.new_wrapped(self._frames[self._number % len(self._frames)])
            self._number += 1
            self._source.emit("push-buffer", frame)
        return True


def main(films: dict[str, dict[str, Any]]) -> None:
    """Serve."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")
    read: dict[str, list[bytes]] = {}
    for mount, film in films.items():
        folder = str(film["folder"])
        frames = read.setdefault(folder, [path.read_bytes() for path in sorted(Path(folder).glob("*.h264"))])
        camera = Camera(frames, int(film["fps"]))
        server.get_mount_points().add_factory(f"/{mount}", camera)
        GLib.timeout_add(500 // int(film["fps"]), camera.play)
    if not server.attach(None):
        sys.exit("the RTSP server cannot listen")
    print(server.get_bound_port(), flush=True)
    loop = GLib.MainLoop()
    GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_DEFAULT, GLib.IOCondition.HUP, lambda *_: loop.quit())
    loop.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
