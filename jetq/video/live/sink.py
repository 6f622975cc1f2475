"""Where results of a live stream go beside the ledger. A sink never stops its stream: it counts what it must drop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from jetq.log import Log
from jetq.video.analyzers.base import Result
from jetq.video.capture.base import Picture

#: A sink that drops now and then says so once in this time (s).
TELL_S = 30.0
#: What is in hand when a stream ends is given this long (s).
CLOSE_S = 1.0

_log = Log("sink")


@dataclass(frozen=True, slots=True)
class Seen:
    """One frame that was looked at."""

    stream: str  # id
    token: str  # of the assignment under which it was seen
    number: int  # 1 is the first frame that this runner has looked at
    at_s: float  # when the frame arrived (Unix)
    result: Result
    picture: Callable[[], Picture]  # BGR, from any thread; nobody writes to it, whoever draws copies it first

    def as_line(self) -> dict[str, Any]:
        """Return what people and programs are told of it, as plain values, without pictures.

        A number of the analyzer's that is called as one of these is left out: by ``token`` and ``n`` results are known.
        """
        boxes = [list(box) for box in self.result.boxes]
        seen = {"at": round(self.at_s, 3), "n": self.number, "score": self.result.score, "boxes": boxes}
        return seen | self.result.named | seen | {"stream": self.stream, "token": self.token}


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the results that a sink was given."""

    kept: int = 0
    dropped: int = 0
    why: str = ""  # the last ones were dropped, or wait for somebody; "": they were kept


class Tally:
    """Counts what becomes of results. It tells once that they wait, are dropped, and are kept again."""

    def __init__(self, sink: str) -> None:
        """``sink``: as it is shown."""
        self._sink = sink
        self._now = Kept()
        self._told = ""  # the last event
        self._told_s = -TELL_S

    @property
    def now(self) -> Kept:
        """What became of them so far."""
        return self._now

    def keep(self, count: int = 1) -> None:
        """So many were kept."""
        self._now = replace(self._now, kept=self._now.kept + count, why="")
        if self._told:
            _log.info("sink.keeps_again", sink=self._sink, dropped=self._now.dropped)
            self._told = ""

    def drop(self, why: str, count: int = 1) -> None:
        """So many were dropped. ``why``: for people, without credentials."""
        self._now = replace(self._now, dropped=self._now.dropped + count, why=why)
        self._tell("sink.drops", why)

    def wait(self, why: str) -> None:
        """Some wait for somebody, and may be kept later."""
        self._now = replace(self._now, why=why)
        self._tell("sink.waits", why)

    def _tell(self, event: str, why: str) -> None:
        graver = not self._told or (self._told, event) == ("sink.waits", "sink.drops")
        if graver and time.monotonic() - self._told_s >= TELL_S:
            self._told, self._told_s = event, time.monotonic()
            _log.warning(event, sink=self._sink, why=why)


class Sink(Protocol):
    """A place for results. All calls come from one thread."""

    @property
    def kept(self) -> Kept:
        """What became of them so far."""
        ...

    def take(self, seen: Seen) -> None:
        """Keep one result. It takes no longer than writing to a file; what waits for others waits in another thread."""
        ...

    def close(self) -> None:
        """Keep what is in hand, in a second at most."""
        ...
