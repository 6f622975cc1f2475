"""Bring what a seat says to the ledger, in a thread of its own: who watches a camera never waits for the broker."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jetq.errors import BrokerDown
from jetq.log import Log
from jetq.policy.streamcost import Load
from jetq.policy.streamrooms import load_text
from jetq.store.streaming import Heard, SeatLedger

#: Results wait so long at most, and how a seat is, where it has none (s).
RESULTS_S, QUIET_S = 0.25, 1.0
#: Results that wait while the broker is away: so many, and so many characters of all; the oldest go first.
WAITING, WAITING_WIDTH = 1000, 4 * 1024 * 1024
#: Between two looks at whether the broker is back (s).
AWAY_S = 0.5

_log = Log("courier")


class Courier:
    """Takes words from the supervisor, and gives it the ledger's answers."""

    def __init__(self, ledger: SeatLedger, seat_id: str, token: str, heard: Callable[[Heard], None]) -> None:
        """``heard`` gets each answer, in the courier's thread; a ``BrokerDown`` of it is one of the courier."""
        self._ledger, self._seat_id, self._token, self._heard = ledger, seat_id, token, heard
        self._change = threading.Condition()  # around all below
        self._results: deque[str] = deque()
        self._width = 0  # of all of them
        self._first = 0  # the number of the first of them: all that the stream had here are counted
        self._telemetry: Mapping[str, Any] = {}
        self._load: Load | None = None
        self._ready = self._told_ready = False
        self._closing = False
        self.owns = False  # the results of this seat counted, when the ledger last answered
        self.over = threading.Event()  # the stream goes on without this seat
        self.fault = ""  # nobody hears of this seat any more, and why
        self.dropped = 0  # results that were too many; an heir's are the owner's business
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self._thread.start()

    def say(self, telemetry: Mapping[str, Any], load: Load | None, results: Sequence[str], *, ready: bool) -> None:
        """Hand over what is to be told; ``results`` are added to those that wait."""
        with self._change:
            self._results.extend(results)
            self._width += sum(map(len, results))
            while len(self._results) > WAITING or self._width > WAITING_WIDTH:
                self._forget()
                self.dropped += 1
            self._telemetry, self._load, self._ready = telemetry, load, ready
            if ready != self._told_ready:
                self._change.notify()

    def close(self, within_s: float) -> None:
        """Tell the last, and end."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join(within_s)

    def _forget(self) -> None:
        self._width -= len(self._results.popleft())
        self._first += 1

    def _run(self) -> None:
        told_s, closing = float("-inf"), False
        try:
            while not (self.over.is_set() or closing):
                with self._change:
                    if not self._closing and self._ready == self._told_ready:
                        self._change.wait(RESULTS_S)
                    closing = self._closing
                    quiet = not self._results and self._ready == self._told_ready
                if self._telemetry and (closing or not quiet or time.monotonic() - told_s >= QUIET_S):
                    told_s = time.monotonic()
                    self._tell()
        except BaseException as exc:
            self.fault = f"what it saw cannot be told: {type(exc).__name__}: {exc}"
            raise
        finally:
            self.over.set()

    def _tell(self) -> None:
        with self._change:
            results, first, ready = list(self._results), self._first, self._ready
            telemetry, load = json.dumps(self._telemetry), load_text(self._load)
        try:
            heard = self._ledger.tell_seat(
                self._seat_id, self._token, telemetry, load, results, first=first, ready=ready
            )
            if heard is None:
                self.over.set()
                return
            with self._change:
                self._told_ready = ready
                while self._results and self._first < first + len(results):
                    self._forget()
            self.owns = heard.owns
            self._heard(heard)
        except BrokerDown as exc:
            _log.debug("courier.waits_for_broker", seat=self._seat_id, why=exc)
            with self._change:
                if not self._closing:
                    self._change.wait(AWAY_S)
