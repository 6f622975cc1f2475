"""Results as a runner gives them, a disk that is really full, and a receiver of webhooks that really fails.

seen       seen(number, at_s=…, size=…, boxes=…, picture=…) -> Seen
tiny_disk  a file system of 8 MiB; `fill()` takes what is free of it, `free()` gives it back
receiver   an HTTP server that answers as the test says, and keeps what it was sent
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from jetq.video.analyzers.base import Box, Result
from jetq.video.live.sink import Seen

#: 2026-11-30 12:00:00 UTC.
NOON = 1_796_040_000.0


@pytest.fixture
def seen() -> Callable[..., Seen]:
    noise = np.random.default_rng(3).integers(0, 255, (90, 160, 3), np.uint8)

    def make(
        number: int,
        *,
        at_s: float | None = None,
        size: tuple[int, int] = (160, 90),
        boxes: tuple[Box, ...] = ((10, 20, 30, 40),),
        **values: float,
    ) -> Seen:
        picture = np.roll(np.resize(noise, (size[1], size[0], 3)), number * 2, axis=1)
        result = Result(0.5, boxes, values)
        return Seen("gate", "1-abc", number, NOON + number / 10 if at_s is None else at_s, result, lambda: picture)

    return make


class TinyDisk:
    """A file system of its own, 8 MiB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "somebody else's"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take what is free."""
        found = os.statvfs(self.folder)
        with self._filler.open("ab") as out, suppress(OSError):
            left = found.f_bavail * found.f_frsize - leave_bytes
            while left > 0:
                left -= out.write(b"x" * min(left, 65536))
                out.flush()

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[TinyDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    # In a mount namespace whose last process ends with this one, however that ends: nothing is left to unmount.
    mount = 'mount -t tmpfs -o size=8m tmpfs "$0" && echo ready && exec cat'
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None and holder.stdout is not None
    with holder.stdin, holder.stdout:
        assert holder.stdout.readline() == b"ready\n"
        yield TinyDisk(Path(f"/proc/{holder.pid}/root{folder}"))
    holder.wait(10)


class Receiver:
    """A server that reads one request at a time and does as it was told: a status, "hang", "die" or "half"."""

    def __init__(self) -> None:
        self.bodies: queue.Queue[list[dict[str, object]]] = queue.Queue()
        self.heads: list[str] = []
        self.orders: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def stop(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._open.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError, ValueError), peer.makefile("rb") as lines:
            while head := self._head(lines):
                order = self.orders.pop(0) if self.orders else "200 OK"
                length = int(head.lower().partition("content-length:")[2].split()[0])
                self.heads.append(head)
                if order == "die":
                    lines.read(length // 2)
                    peer.shutdown(socket.SHUT_RDWR)
                    return
                body = json.loads(lines.read(length))
                if order == "hang":
                    continue
                if order == "half":  # taken, and its answer is lost
                    self.bodies.put(body)
                    peer.sendall(b"HTTP/1.")
                    peer.shutdown(socket.SHUT_RDWR)
                    return
                status, *headers = order.split("|")
                if status.startswith("2"):
                    self.bodies.put(body)
                peer.sendall("\r\n".join([f"HTTP/1.1 {status}", *headers, "Content-Length: 2", "", "ok"]).encode())

    @staticmethod
    def _head(lines) -> str:
        text = b""
        while line := lines.readline():
            text += line
            if line == b"\r\n":
                break
        return text.decode()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.stop()
