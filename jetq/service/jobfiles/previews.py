"""Give what a stream sees to those who ask over HTTP: one JPEG, or one after the other (MJPEG)."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from http import HTTPStatus
from pathlib import Path

from jetq.service.jobfiles.peephole import Peephole, address_of
from jetq.serving import RangeHandler

#: So many may watch a node at once; a single picture is for all.
MOST_WATCHERS = 8
#: A stream that runs has shown a picture after so long (s), or it has none just now.
FIRST_S = 3.0
#: So often it is looked at whether the node stops (s).
_LOOK_S = 1.0
_BOUNDARY = "jetq-frame"


class Previews:
    """The views of one node's streams."""

    def __init__(self, root: Path) -> None:
        """``root``: of all jobs' folders."""
        self._root = root
        self._room = threading.BoundedSemaphore(MOST_WATCHERS)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End all of them soon."""
        self._stopping.set()

    def give(self, handler: RangeHandler, job_id: str, *, once: bool) -> None:
        """Answer a request. 404: the stream does not run here; 503: it has no picture, or too many watch.

        Args:
            handler: of the request.
            job_id: of the stream.
            once: one picture; else all that come, until the stream ends or the reader hangs up.
        """
        if once:
            self._give(handler, job_id, once=True)
        elif self._room.acquire(blocking=False):
            try:
                self._give(handler, job_id, once=False)
            finally:
                self._room.release()
        else:
            handler.refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def _give(self, handler: RangeHandler, job_id: str, *, once: bool) -> None:
        try:
            hole = Peephole(address_of(self._root, job_id))
        except BlockingIOError:  # too many at once
            handler.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        except OSError:
            handler.refuse(HTTPStatus.NOT_FOUND)
            return
        with contextlib.closing(hole):
            jpeg = self._next(handler, hole, FIRST_S)
            if not jpeg:
                handler.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            elif once:
                handler.begin(HTTPStatus.OK, len(jpeg), kind="image/jpeg")
                handler.wfile.write(jpeg)
            else:
                self._follow(handler, hole, jpeg)

    def _follow(self, handler: RangeHandler, hole: Peephole, jpeg: bytes) -> None:
        handler.close_connection = True
        handler.send_response(HTTPStatus.OK)
        handler.send_header("Content-Type", f"multipart/x-mixed-replace; boundary={_BOUNDARY}")
        handler.send_header("Cache-Control", "no-store")
        handler.send_header("Connection", "close")
        handler.end_headers()
        while jpeg:
            head = f"--{_BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
            handler.wfile.write(head.encode() + jpeg + b"\r\n")
            jpeg = self._next(handler, hole, None)
        handler.wfile.write(f"--{_BOUNDARY}--\r\n".encode())

    def _next(self, handler: RangeHandler, hole: Peephole, within_s: float | None) -> bytes:
        """Wait for a picture; ``b""``: none comes any more, or not in time, or nobody waits for it."""
        poll = select.poll()
        poll.register(hole, select.POLLIN)
        poll.register(handler.connection, select.POLLIN | select.POLLRDHUP)
        end_s = None if within_s is None else time.monotonic() + within_s
        while not self._stopping.is_set():
            left_s = _LOOK_S if end_s is None else min(_LOOK_S, end_s - time.monotonic())
            if left_s <= 0:
                break
            ready = [fd for fd, _event in poll.poll(left_s * 1000)]
            if handler.connection.fileno() in ready:  # who watches says nothing more, or has hung up
                break
            if hole.fileno() in ready and (jpeg := hole.newest()) is not None:
                return jpeg
        return b""
