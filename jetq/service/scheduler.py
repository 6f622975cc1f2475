"""While this agent leads: look at all gangs and streams, now and whenever somebody rings."""

from __future__ import annotations

import time
from typing import Protocol

from jetq.clock import Clock
from jetq.service.gangs import Gangs
from jetq.service.leader import TURN_S, Leader
from jetq.service.streams import Streams
from jetq.store.ganging import GangScheduling
from jetq.store.streaming import StreamScheduling

#: Time between two turns (s), in which nobody hears the bell. The server ends a wait for it up to 0.1 s late, so a turn
#: has no fixed length.
PAUSE_S = 0.05
#: A wait for the bell is at least so long (s): 0 would be for ever.
_SHORTEST_S = 0.01


class Scheduling(GangScheduling, StreamScheduling, Protocol):
    """What it asks of the ledger."""

    def wait_for_bell(self, within_s: float) -> bool:
        """Return once somebody has rung for whoever leads. False: nobody has."""
        ...


class Scheduler:
    """Calls gangs and streams in turn. ``turn`` is called again and again by one thread."""

    def __init__(self, ledger: Scheduling, leader: Leader, *, clock: Clock) -> None:
        self._ledger = ledger
        self._leader = leader
        self._clock = clock
        self._gangs = Gangs(ledger, leader)
        self._streams = Streams(ledger, leader, clock=clock)

    def turn(self) -> None:
        """Look now and whenever somebody rings, for half a second; where another agent leads, just wait.

        Raises:
            BrokerDown: no answer.
        """
        end_s = self._clock() + TURN_S
        self._look()
        if not self._leader.leads:
            time.sleep(TURN_S)
        while self._leader.leads and (left_s := end_s - self._clock()) > 0:
            if self._ledger.wait_for_bell(max(left_s, _SHORTEST_S)):
                self._look()

    def _look(self) -> None:
        self._gangs.look()
        self._streams.look(self._gangs.moves)
