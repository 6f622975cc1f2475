"""Streams on boards: who has them, which processes run them, and a witness of all that they see."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import redis

from jetq import procfs
from jetq.job import Job
from jetq.policy.streamrooms import StreamRecord
from jetq.store.redis import RedisStore, connect
from tests.fault.boards import Boards, wait
from tests.fault.node import Node

#: A camera that costs next to nothing.
SMALL = "test:ball?size=160x120&fps=10"


class Streams:
    """The streams of a cluster on boards."""

    def __init__(self, boards: Boards) -> None:
        self.boards = boards
        self.ledger, self.client = boards.ledger, boards.client

    def want(self, stream_id: str, uri: str = SMALL, **fields: Any) -> Job:
        """Want a stream."""
        return self.client.stream(uri, job_id=stream_id, **fields)

    def record(self, stream_id: str) -> StreamRecord:
        """Return a stream as its leader sees it."""
        return next(record for record in self.ledger.streams() if record.id == stream_id)

    def told(self, stream_id: str) -> dict[str, Any]:
        """Return how a stream is, as it last said."""
        return self.ledger.job(stream_id).telemetry or {}

    def turns(self, *ids: str) -> dict[str, int]:
        """Return how many steps were done with each stream so far."""
        return {record.id: record.turn for record in self.ledger.streams() if record.id in ids}

    def homes(self) -> dict[str, str]:
        """Return the node that has each stream, "" where none does yet: it is the owner, and its frames come."""
        return {
            record.id: record.owner.node if record.owner and record.owner.live and record.owner.ready else ""
            for record in self.ledger.streams()
        }

    def wait_streaming(self, *ids: str, within_s: float = 40.0) -> dict[str, str]:
        """Wait until frames of these streams (none named: of all) come from their owners; return these by stream."""

        def come() -> dict[str, str]:
            homes, moving = self.homes(), any(record.heir for record in self.ledger.streams())
            return homes if not moving and all(homes.get(stream) for stream in ids or homes) else {}

        return wait(come, within_s, f"the frames of {', '.join(ids) or 'all'}", row=self.homes)

    def runners(self, node: Node) -> list[int]:
        """Return the pids of all runners on a node."""
        return [pid for spare in self.spares(node) for pid in procfs.children(spare)]

    def spares(self, node: Node) -> list[int]:
        """Return the pid of a node's warm spare, if it has one."""
        return [
            pid for pid in node.left() if words(pid)[2:3] == ["_spare"] and words(procfs.parent(pid))[2:3] == ["_lane"]
        ]

    def end_all(self) -> None:
        """Let nothing of a test stand in the way of the next."""
        self.boards.end_all()
        wait(lambda: not self.ledger.streams(), 30, "the end of all streams", row=self.ledger.streams)


def words(pid: int) -> list[str]:
    """Return the command line of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return []


@dataclass(frozen=True)
class Sight:
    """One result, as the ledger got it."""

    came_s: float  # when the ledger got it (the broker's clock)
    at_s: float  # when the frame arrived (the node's clock; here all have the same)
    number: int
    token: str


def sight(entry: bytes, pairs: Mapping[bytes, bytes]) -> Sight:
    """Read one result."""
    seen = json.loads(pairs[b"r"])
    return Sight(int(entry.split(b"-")[0]) / 1000, seen["at"], seen["n"], seen["token"])


@dataclass
class Tale:
    """All results of one stream, in the ledger's order."""

    sights: list[Sight] = field(default_factory=list)

    @property
    def owners(self) -> list[str]:
        """The tokens of its owners, in their order: one that comes twice was not alone."""
        return [token for token, _ in groupby(sight.token for sight in self.sights)]

    @property
    def doubled(self) -> list[str]:
        """What two owners have seen at once, "" for nothing."""
        found = [f"{token} came back" for n, token in enumerate(self.owners) if token in self.owners[:n]]
        for before, after in pairwise(self.sights):
            if after.token != before.token and after.at_s <= before.at_s:
                found.append(
                    f"{after.token} saw a frame {before.at_s - after.at_s:.3f} s before the last one of {before.token}"
                )
        return found

    def longest(self, since_s: float = 0.0, until_s: float = math.inf) -> float:
        """Return the longest time (s) between one result and the next, of those that the ledger got between."""
        pairs = [(before.came_s, after.came_s) for before, after in pairwise(self.sights)]
        return max((after - before for before, after in pairs if since_s <= before and after <= until_s), default=0.0)


class Witness:
    """Writes down all results of streams that come while a ``with`` block lasts."""

    def __init__(self, url: str, ids: Iterable[str]) -> None:
        self._ledger = RedisStore(connect(url), "jetq")
        self.tales = {stream: Tale() for stream in ids}
        self._places = {stream: self._ledger.last_result(stream) for stream in self.tales}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            with suppress(redis.RedisError):  # it is away: the next look asks again
                self._look()

    def _look(self) -> None:
        for stream, tale in self.tales.items():
            begin = f"({self._places[stream]}" if self._places[stream] else "-"
            for entry, pairs in self._ledger.client.xrange(f"{self._ledger.prefix}results:{stream}", begin):
                self._places[stream] = entry.decode()
                tale.sights.append(sight(entry, pairs))

    @property
    def doubled(self) -> dict[str, list[str]]:
        """What was seen by two owners at once, by stream; {} for nothing."""
        return {stream: tale.doubled for stream, tale in self.tales.items() if tale.doubled}

    def longest(self) -> dict[str, float]:
        """Return the longest time (s) without a result for each stream, up to its last one."""
        return {stream: tale.longest() for stream, tale in self.tales.items()}
