"""All that an agent does again and again, in one list: for its node, and for the cluster while it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from jetq.log import Log
from jetq.model.beat import NodeFacts
from jetq.page import Entry
from jetq.policy import boards, speed
from jetq.probe.base import Probe
from jetq.service.beats import Beater
from jetq.service.janitor import Attic, Janitor
from jetq.service.leader import TURN_S, Leader
from jetq.service.loop import Loop, Outage
from jetq.store.base import Delivery, Leading, NodeKeeper

#: Beats in the time after which a silent node is dead.
BEATS = 5
#: Time between two slow readings and lessons, and between two rounds of the janitor (s).
SLOW_S, CLEAN_S = 5.0, 60.0
#: A node that is gone or dead stays listed so long (s).
KEEP_S = 24 * 3600.0

_log = Log("duties")


class DutyLedger(NodeKeeper, Leading, Attic, Protocol):
    """What the duties ask of the ledger."""


def duties(
    facts: NodeFacts,
    beater: Beater,
    leader: Leader,
    ledger: DutyLedger,
    delivery: Delivery,
    probe: Probe,
    outage: Outage,
    running: Callable[[], Iterable[Entry]],
    *,
    dead_s: float,
) -> list[Loop]:
    """Return one loop per duty, not started."""
    janitor = Janitor(ledger, keep_s=KEEP_S, dead_s=dead_s)

    def lead() -> None:
        leader.turn()
        if leader.unsure and (lost := ledger.reassert(facts.name, facts.epoch, running())):
            _log.warning("claims.made_again", jobs=lost)

    def tell() -> None:
        if leader.leads:
            for ended in ledger.untold():
                delivery.settle(ended)
                ledger.told(ended.job_id)

    def learn() -> None:
        if leader.leads:
            for name, runs in ledger.fresh_runs().items():
                ledger.set_speeds(name, speed.factors(runs, {board: boards.prior(board) for board in runs}))

    def clean() -> None:
        if leader.leads:
            janitor.turn()

    return [
        Loop("beat", dead_s / BEATS, beater.beat, outage),
        Loop("probe", SLOW_S, probe.refresh, outage),
        Loop("lead", TURN_S, lead, outage),
        Loop("tell", TURN_S, tell, outage),
        Loop("learn", SLOW_S, learn, outage),
        Loop("clean", CLEAN_S, clean, outage),
    ]
