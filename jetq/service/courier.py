"""Bring what a seat says to the ledger, in a thread of its own: who watches a camera never waits for the broker."""

from __future__ import annotations

import json
import threading
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
#: Results that wait while the broker is away; the oldest go first.
WAITING = 1000
#: Between two looks at whether the broker is back (s).
AWAY_S = 0.5

_log = Log("courier")


class Courier:
    """Takes words from the supervisor, and keeps the last answer for it."""

    def __init__(self, ledger: SeatLedger, seat_id: str, token: str, heard: Callable[[Heard], None]) -> None:
        """``heard`` gets each answer, in the courier's thread."""
        self._ledger, self._seat_id, self._token, self._heard = ledger, seat_id, token, heard
        self._change = threading.Condition()  # around all below
        self._results: deque[str] = deque(maxlen=WAITING)
        self._telemetry: Mapping[str, Any] = {}
        self._load: Load | None = None
        self._ready = self._told_ready = False
        self._closing = False
        self.over = threading.Event()  # the stream goes on without this seat
        self.dropped = 0  # results that the ledger did not get
        self._owns = False
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self._thread.start()

    @property
    def owns(self) -> bool:
        """Whether the results of this seat counted, when the ledger last answered."""
        return self._owns

    def say(self, telemetry: Mapping[str, Any], load: Load | None, results: Sequence[str], *, ready: bool) -> None:
        """Hand over what is to be told; ``results`` are added to those that wait."""
        with self._change:
            too_many = len(self._results) + len(results) - WAITING
            self.dropped += max(0, too_many)
            self._results.extend(results)
            self._telemetry, self._load, self._ready = telemetry, load, ready
            if ready != self._told_ready:
                self._change.notify()

    def close(self, within_s: float) -> None:
        """Tell the last, and end."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join(within_s)

    def _run(self) -> None:
        waited_s = 0.0
        while not self.over.is_set():
            with self._change:
                if not self._closing and self._ready == self._told_ready:
                    self._change.wait(RESULTS_S)
                waited_s += RESULTS_S
                closing, ready = self._closing, self._ready
                due = closing or len(self._results) > 0 or waited_s >= QUIET_S or ready != self._told_ready
                results = list(self._results) if due else []
                if due:
                    self._results.clear()
                telemetry, load = json.dumps(self._telemetry), load_text(self._load)
            if due:
                waited_s = 0.0
                self._tell(telemetry, load, results, ready)
            if closing:
                return

    def _tell(self, telemetry: str, load: str, results: list[str], ready: bool) -> None:
        try:
            heard = self._ledger.tell_seat(self._seat_id, self._token, telemetry, load, results, ready=ready)
        except BrokerDown:
            with self._change:
                kept = results[max(0, len(results) + len(self._results) - WAITING) :]
                self.dropped += len(results) - len(kept)
                self._results.extendleft(reversed(kept))
                if not self._closing:
                    self._change.wait(AWAY_S)
            return
        if heard is None:
            self.over.set()
            return
        with self._change:
            self._told_ready = ready
        self._owns = heard.owns
        self._heard(heard)
