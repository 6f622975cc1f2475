"""Be a network camera that sends JPEG pictures over HTTP, and what else may answer there; see tests/cameras.py.

argv: address, port (0: a free one), user, password ("" for none), fps. Writes its port to stdout once it listens. What
it does is the path's choice:

/live     a ball that moves, for ever
/stall    ten pictures, and then nothing more, on a line that stays open
/cut      ten pictures, and then the line is cut in the middle of one
/broken   pictures of which each third is damaged
/garbage  random bytes that say they are pictures
/text     a page, as recorders show it to browsers
/silent   a connection, and no answer
/list     a playlist that names a file of the machine that reads it
"""

from __future__ import annotations

import base64
import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np

_BOUNDARY = "picture"
_LIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"


def pictures(count: int, *, width: int = 320, height: int = 240) -> Iterator[bytes]:
    """Give JPEG pictures of a ball."""
    for number in range(count):
        picture = np.full((height, width, 3), 90, np.uint8)
        cv2.circle(picture, (20 + number * 7 % (width - 40), height // 2), 20, (40, 60, 230), -1)
        yield cv2.imencode(".jpg", picture)[1].tobytes()


class Camera(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_GET(self) -> None:
        """Do what the path says."""
        if self.server.proof and self.headers.get("Authorization") != self.server.proof:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="camera"')
            self.end_headers()
            return
        what = self.path.partition("?")[0].strip("/")
        if what == "silent":
            self.server.never.wait()
        elif what in ("text", "list"):
            body = _LIST if what == "list" else b"<html><body>Please log in</body></html>"
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.apple.mpegurl" if what == "list" else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif what in ("live", "stall", "cut", "broken", "garbage"):
            with contextlib.suppress(OSError):  # nobody watches any more
                self._stream(what)
        else:
            self.send_error(404)

    def _stream(self, what: str) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", f"multipart/x-mixed-replace; boundary={_BOUNDARY}")
        self.end_headers()
        for number, drawn in enumerate(pictures(10 if what in ("stall", "cut") else 1_000_000)):
            picture = drawn
            if what == "garbage" or (what == "broken" and number % 3 == 2):
                picture = os.urandom(len(drawn)) if what == "garbage" else drawn[:200] + os.urandom(300)
            head = f"--{_BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
            if what == "cut" and number == 9:
                self.wfile.write(head.encode() + picture[: len(picture) // 2])
                return
            self.wfile.write(head.encode() + picture + b"\r\n")
            self.server.never.wait(1 / self.server.fps)
        self.server.never.wait()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """The camera."""

    daemon_threads = True

    def __init__(self, address: str, port: int, user: str, password: str, fps: float) -> None:
        super().__init__((address, port), Camera)
        self.proof = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}" if user else ""
        self.fps = fps
        self.never = threading.Event()


if __name__ == "__main__":
    served = Server(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]))
    print(served.server_address[1], flush=True)
    served.serve_forever()
