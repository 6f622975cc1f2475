"""All that an agent does again and again, in one list: for its node, and for the cluster while it leads."""

from __future__ import annotations

from typing import Protocol

from jetq.clock import Clock
from jetq.policy import boards, speed
from jetq.probe.base import Probe
from jetq.service.beats import Beater
from jetq.service.janitor import Attic, Janitor
from jetq.service.leader import TURN_S, Leader, LeaderLedger
from jetq.service.loop import Loop, Outage
from jetq.service.scheduler import PAUSE_S, Scheduler, Scheduling
from jetq.store.base import Delivery

#: Beats in the time after which a silent node is dead.
BEATS = 5
#: Time between two slow readings and lessons, and between two rounds of the janitor (s).
SLOW_S, CLEAN_S = 5.0, 60.0
#: A node that is gone or dead stays listed so long (s).
KEEP_S = 24 * 3600.0


class ChoreLedger(LeaderLedger, Attic, Scheduling, Protocol):
    """What the chores ask of the ledger."""


class Chores:
    """What the leader does for the cluster beside healing. Each does nothing while another agent leads."""

    def __init__(self, ledger: ChoreLedger, delivery: Delivery, leader: Leader, *, dead_s: float, clock: Clock) -> None:
        self._ledger = ledger
        self._delivery = delivery
        self._leader = leader
        self.scheduler = Scheduler(ledger, leader, clock=clock)
        self._janitor = Janitor(ledger, keep_s=KEEP_S, dead_s=dead_s)

    def tell(self) -> None:
        """Tell Celery of the jobs that ended outside a lane."""
        if self._leader.leads:
            for ended in self._ledger.untold():
                self._delivery.settle(ended)
                self._ledger.told(ended.job_id)

    def learn(self) -> None:
        """Learn speeds from the runs that ended since anybody last looked."""
        if self._leader.leads:
            for name, runs in self._ledger.fresh_runs().items():
                self._ledger.set_speeds(name, speed.factors(runs, {board: boards.prior(board) for board in runs}))

    def clean(self) -> None:
        """Remove what nobody reads any more."""
        if self._leader.leads:
            self._janitor.turn()


def duties(
    beater: Beater, probe: Probe, leader: Leader, chores: Chores, outage: Outage, *, dead_s: float
) -> list[Loop]:
    """Return one loop per duty, not started."""
    return [
        Loop("beat", dead_s / BEATS, beater.beat, outage),
        Loop("probe", SLOW_S, probe.refresh, outage),
        Loop("lead", TURN_S, leader.turn, outage),
        Loop("schedule", PAUSE_S, chores.scheduler.turn, outage),
        Loop("tell", TURN_S, chores.tell, outage),
        Loop("learn", SLOW_S, chores.learn, outage),
        Loop("audit", SLOW_S, leader.audit, outage),
        Loop("clean", CLEAN_S, chores.clean, outage),
    ]
