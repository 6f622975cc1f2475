"""What a running stream sees now, for those who look: small pictures over a local socket, from memory to memory.

A watcher (the node's HTTP port) connects and gets one JPEG a message, until the stream ends. Nobody watches: one
question to the kernel in 0.2 s. Nothing is ever written to a disk, which on a board is a card that wears out.
"""

from __future__ import annotations

import contextlib
import socket
import time

from jetq import procfs
from jetq.errors import JetqError
from jetq.log import Log
from jetq.video.live.annotate import annotated
from jetq.video.live.sink import Seen
from jetq.video.pictures import thumbnail

#: Time between two pictures (s).
PERIOD_S = 0.2
#: Longer side of a picture (pixels), and its size (bytes): it has to fit into one message of a local socket.
LONGER_PX, MOST_BYTES = 640, 96 * 1024
#: More watchers are turned away: the node's HTTP port lets in fewer, and some who want one picture.
MOST_WATCHERS = 16

_log = Log("preview")


class Preview:
    """Shows results to whoever watches, each with its boxes. It never raises into the stream, and never waits."""

    def __init__(self, address: str) -> None:
        """Touch nothing yet. ``address``: an abstract one (``service.jobfiles.peephole``); "": nobody looks."""
        self._address = f"\0{address}" if address else ""
        self._listener: socket.socket | None = None
        self._watchers: list[socket.socket] = []
        self._next_s = 0.0
        self._failing = False

    def offer(self, seen: Seen) -> None:
        """Show a result, if somebody watches and the last picture is old enough."""
        now_s = time.monotonic()
        if now_s < self._next_s or not self._address:
            return
        self._next_s = now_s + PERIOD_S
        try:
            self._admit()
            if self._watchers:
                self._show(thumbnail(annotated(seen, longer_px=LONGER_PX), longer_px=LONGER_PX, most_bytes=MOST_BYTES))
        except (OSError, JetqError) as exc:
            if not self._failing:
                _log.warning("preview.off", why=exc)
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        """Let go of all who watch."""
        for one in (*self._watchers, *([self._listener] if self._listener else [])):
            one.close()
        self._watchers, self._listener = [], None

    def _admit(self) -> None:
        """Let in who waits, if it is our own user.

        Raises:
            OSError: another runner of this stream, which is being ended, still has the address.
        """
        if self._listener is None:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.setblocking(False)
            try:
                listener.bind(self._address)
                listener.listen(MOST_WATCHERS)
            except OSError:
                listener.close()
                raise
            self._listener = listener
        with contextlib.suppress(BlockingIOError):
            while True:
                peer, _ = self._listener.accept()
                peer.setblocking(False)
                if len(self._watchers) >= MOST_WATCHERS:
                    self._forget_gone()
                if len(self._watchers) < MOST_WATCHERS and procfs.is_ours(peer):
                    self._watchers.append(peer)
                else:
                    peer.close()

    def _forget_gone(self) -> None:
        for watcher in list(self._watchers):
            with contextlib.suppress(BlockingIOError):
                if not watcher.recv(1):
                    watcher.close()
                    self._watchers.remove(watcher)

    def _show(self, jpeg: bytes) -> None:
        for watcher in list(self._watchers):
            try:
                watcher.send(jpeg)
            except BlockingIOError:  # it is slow, and gets a later one
                continue
            except OSError:
                watcher.close()
                self._watchers.remove(watcher)
