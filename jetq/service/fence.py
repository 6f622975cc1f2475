"""Until when the work of this run may go on. Beats put it off, and proof that the broker is down; it passes once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

from jetq.clock import Clock
from jetq.page import Page

#: Work ends after this share of the time after which a silent node is declared dead: before anybody runs it again.
HOLD = 0.8
#: Beats that are further apart than this share of that time are not in an unbroken row.
GAP = 0.5
#: Exit code of a run that has no right to go on, and of one whose node shall go on under a new epoch.
UNPLANNED, REJOIN = 1, 75


@dataclass(frozen=True, slots=True)
class Over:
    """Why all work of a run is killed, and what it exits with."""

    why: str
    code: int


class Proof(Protocol):
    """Tells a broker that is down from one that is out of reach."""

    def look(self) -> float | None:
        """Return when the broker's machine was last seen while the broker served nobody (boot time, s), or None."""
        ...


class Fence:
    """The right of one run to go on: its deadline, kept in the page of each lane. Any thread may call it."""

    def __init__(self, *, dead_s: float, clock: Clock) -> None:
        """``dead_s``: time without a beat after which the ledger declares a node dead."""
        self._dead_s = dead_s
        self._clock = clock
        self._pages: dict[str, Page] = {}
        self._until_s = 0.0  # 0: the run has not joined, so it has no work to end
        self._over: Over | None = None
        self._lifted = False
        self._beat_s = self._row_s = 0.0  # the last accepted beat, and the first of its unbroken row
        self._lock = threading.Lock()

    @property
    def over(self) -> Over | None:
        """Why all work of this run must end now, and the run with it; None while it may go on."""
        with self._lock:
            return self._look()

    @property
    def steady_since_s(self) -> float:
        """Since when the broker has accepted each beat; now, if the last is too long ago."""
        now_s = self._clock()
        return self._row_s if now_s - self._beat_s <= GAP * self._dead_s else now_s

    def cover(self, lane: str, page: Page) -> None:
        """Keep the deadline in the page of a lane that is about to start."""
        with self._lock:
            self._pages[lane] = page
            page.good_until_s = self._until_s

    def accepted(self, started_s: float) -> None:
        """The ledger has accepted a beat (or the join) that we began to send at ``started_s``."""
        with self._lock:
            if started_s - self._beat_s > GAP * self._dead_s:
                self._row_s = started_s
            self._beat_s = started_s
            self._put_off(started_s)

    def heed(self, proof: Proof) -> None:
        """Go on while nobody can beat: the machine of the broker is there, and the broker is down."""
        at_s = proof.look()
        if at_s is not None:
            self.unserved(at_s)

    def unserved(self, at_s: float) -> None:
        """At ``at_s`` the broker was within reach, and nobody could beat."""
        with self._lock:
            if self._until_s:
                self._put_off(at_s)

    def refused(self, reason: str) -> None:
        """The ledger has refused a beat. ``reason``: see ``BeatReply.over``."""
        if reason == "replaced":
            self.end(Over("another run of this node has taken over", UNPLANNED))
        else:
            self.end(Over(f"the ledger has ended this run ({reason})", REJOIN))

    def end(self, over: Over) -> None:
        """End the run, if nothing has ended it before."""
        with self._lock:
            if not self._lifted:
                self._over = self._look() or over

    def lift(self) -> None:
        """Nothing runs any more, so nothing can end this run but its plan."""
        with self._lock:
            self._lifted = self._look() is None

    def _put_off(self, from_s: float) -> None:
        if self._look() is None and from_s + HOLD * self._dead_s > self._until_s:
            self._until_s = from_s + HOLD * self._dead_s
            for page in self._pages.values():
                page.good_until_s = self._until_s

    def _look(self) -> Over | None:
        """Notice that the deadline has passed: the lanes have ended then, so no later beat can put it off."""
        if self._over is None and not self._lifted and 0 < self._until_s < self._clock():
            self._over = Over("no beat was accepted for too long, so its work was killed", REJOIN)
        return self._over
