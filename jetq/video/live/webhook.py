"""The sink ``webhook:URL``: results as batches of JSON, posted from a thread of its own until they are taken."""

from __future__ import annotations

import random
import threading
import time
from collections import deque

from jetq.policy.backoff import pause_s
from jetq.video.live.lines import as_json, unwritable
from jetq.video.live.posting import Answer, Receiver
from jetq.video.live.sink import CLOSE_S, Kept, Seen, Tally

#: One request holds at most so many results and so many bytes, and waits so long (s) for more to come.
BATCH, BATCH_BYTES, GATHER_S = 100, 512 * 1024, 0.5
#: While the receiver is away so many results wait, of so many bytes together; beyond it the oldest are dropped.
WAITING, WAITING_BYTES = 1000, 4 * 1024**2
#: The pause (s) after a first failure, and the longest; a receiver may ask for a longer one, up to the last.
FIRST_S, MOST_S, MOST_ASKED_S = 0.5, 30.0, 300.0


class Webhook:
    """Posts results in their order. What was not taken waits and is posted again, so a batch may come twice."""

    def __init__(self, receiver: Receiver, shown: str) -> None:
        """Start the thread. ``shown``: the sink, without its credentials."""
        self._receiver = receiver
        self._tally = Tally(shown)
        self._waiting: deque[str] = deque()
        self._hand = 0  # results that are being posted
        self._bytes = 0  # of all that wait or are being posted
        self._changed = threading.Condition()
        self._closing = False
        self._failures, self._fault = 0, ""  # in a row, and the last of them
        self._thread = threading.Thread(target=self._run, name="sink webhook", daemon=True)
        self._thread.start()

    @property
    def kept(self) -> Kept:
        """What became of them so far; those that wait are in neither number."""
        return self._tally.now

    def take(self, seen: Seen) -> None:
        """Let one result wait for the thread."""
        try:
            text = as_json(seen)
        except (TypeError, ValueError) as exc:
            with self._changed:
                self._tally.drop(unwritable(exc))
            return
        with self._changed:
            if len(text) > BATCH_BYTES:
                self._tally.drop(f"a result of {len(text)} bytes is too large; {BATCH_BYTES} is the most")
                return
            self._waiting.append(text)
            self._bytes += len(text)
            self._bound()
            self._changed.notify()

    def close(self) -> None:
        """Post what waits, in a second at most; the rest is dropped and counted."""
        end_s = time.monotonic() + CLOSE_S
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_S * 0.9)
        self._receiver.abort()
        self._thread.join(max(0.0, end_s - time.monotonic()))
        with self._changed:
            left = self._hand + len(self._waiting)
            if left:
                self._tally.drop("the stream has ended", left)
            self._waiting.clear()
            self._hand = 0

    def _run(self) -> None:
        while batch := self._next():
            answer = self._receiver.post(f"[{','.join(batch)}]".encode())
            pause = self._settle(batch, answer)
            with self._changed:
                if self._closing and answer.fault:
                    break
                self._changed.wait_for(lambda: self._closing, pause)
        self._receiver.close()

    def _next(self) -> list[str]:
        """Wait for results; return the next batch, none: it is the end. Until they are settled they still wait."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(lambda: len(self._waiting) >= BATCH or self._closing, GATHER_S)
            batch: list[str] = []
            size = 0
            while self._waiting and len(batch) < BATCH and size + len(self._waiting[0]) <= BATCH_BYTES:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            self._hand = len(batch)
            return batch

    def _settle(self, batch: list[str], answer: Answer) -> float:
        """Count what became of a batch, or let it wait again. Returns the pause before the next (s)."""
        with self._changed:
            if not self._hand:  # too late: they are counted already
                return 0.0
            self._hand = 0
            self._fault = answer.fault
            if answer.again and not self._closing:
                self._waiting.extendleft(reversed(batch))
                self._tally.wait(answer.fault)
                self._bound()
            else:
                self._bytes -= sum(map(len, batch))
                if answer.fault:
                    self._tally.drop(answer.fault, len(batch))
                else:
                    self._tally.keep(len(batch))
        if not answer.fault:
            self._failures = 0
            return 0.0
        self._failures += 1
        usual = pause_s(self._failures, first_s=FIRST_S, most_s=MOST_S) * random.uniform(0.5, 1.0)
        return max(usual, min(answer.pause_s, MOST_ASKED_S))

    def _bound(self) -> None:
        """Drop the oldest of what is too much."""
        count = 0
        while len(self._waiting) > WAITING or (self._bytes > WAITING_BYTES and self._waiting):
            self._bytes -= len(self._waiting.popleft())
            count += 1
        if count:
            self._tally.drop(self._fault or "the receiver does not keep up", count)
