"""Where results of a live stream go beside the ledger. A sink never stops its stream: it counts what it must drop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from jetq.video.analyzers.base import Result
from jetq.video.capture.base import Picture


@dataclass(frozen=True, slots=True)
class Seen:
    """One frame that was looked at."""

    stream: str  # id
    token: str  # of the assignment under which it was seen
    number: int  # 1 is the first frame that this runner has looked at
    at_s: float  # when the frame arrived (Unix)
    result: Result
    picture: Callable[[], Picture]  # BGR; whoever draws on it copies it first

    def as_line(self) -> dict[str, Any]:
        """Return what people and programs are told of it, as plain values, without pictures."""
        boxes = [list(box) for box in self.result.boxes]
        seen = {"at": round(self.at_s, 3), "n": self.number, "score": self.result.score, "boxes": boxes}
        return seen | self.result.named | {"stream": self.stream, "token": self.token}


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the results that a sink was given."""

    kept: int = 0
    dropped: int = 0
    why: str = ""  # the last ones were dropped; "": they were not


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
