"""A sink whose work is done in a thread of its own: a slow disk, or a large picture, holds up no frame."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import replace

import numpy as np

from jetq.video.capture.base import Picture
from jetq.video.live.sink import CLOSE_S, Kept, Seen, Sink, Tally

_SLOW = "it takes longer than the frames come"
_DEAD = "it has failed; the job's log says how"


class Aside:
    """Hands results on to another sink, in order. Where that one does not keep up, the newest are dropped."""

    def __init__(self, sink: Sink, name: str, *, waiting: int, pictures: bool) -> None:
        """Start the thread.

        Args:
            sink: which is used by this thread alone from now on.
            name: of the sink, as it is shown.
            waiting: so many results may wait.
            pictures: the sink needs them; else they do not wait with the results, and their memory is free.
        """
        self._sink = sink
        self._tally = Tally(name)  # of what never came to the sink
        self._waiting: queue.Queue[Seen | None] = queue.Queue(waiting + 1)  # the end always finds room
        self._most = waiting
        self._pictures = pictures
        self._late = threading.Event()  # the rest is dropped
        self._thread = threading.Thread(target=self._run, name=f"sink {name.partition(':')[0]}", daemon=True)
        self._thread.start()

    @property
    def kept(self) -> Kept:
        """What became of them so far; those that wait are in neither number."""
        inner, own = self._sink.kept, self._tally.now
        return Kept(inner.kept, inner.dropped + own.dropped, own.why or inner.why)

    def take(self, seen: Seen) -> None:
        """Let one result wait for the thread."""
        if not self._thread.is_alive():
            self._tally.drop(_DEAD)
        elif self._waiting.qsize() >= self._most:
            self._tally.drop(_SLOW)
        else:
            self._waiting.put_nowait(seen if self._pictures else replace(seen, picture=_none))
            self._tally.keep(0)

    def close(self) -> None:
        """Hand on what waits, in a second at most; the rest is dropped and counted."""
        end_s = time.monotonic() + CLOSE_S
        with contextlib.suppress(queue.Full):  # it was closed before
            self._waiting.put_nowait(None)
        self._thread.join(CLOSE_S * 0.9)
        if self._thread.is_alive():
            self._late.set()
            self._thread.join(max(0.0, end_s - time.monotonic()))
        left = [seen for seen in self._rest() if seen is not None]
        if left:
            self._tally.drop("the stream has ended", len(left))

    def _run(self) -> None:
        while (seen := self._waiting.get()) is not None and not self._late.is_set():
            self._sink.take(seen)
        if seen is not None:
            self._waiting.put_nowait(seen)
        self._sink.close()

    def _rest(self) -> list[Seen | None]:
        rest = []
        while not self._waiting.empty():
            rest.append(self._waiting.get_nowait())
        return rest


def _none() -> Picture:
    return np.zeros((0, 0, 3), np.uint8)
