"""Hold the leader's lease, and while it is held: judge silent nodes, heal delivery, publish what is due.

Every agent asks for the lease, and so every agent hears when the server was started anew, and says what it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from jetq.clock import Clock
from jetq.log import Log
from jetq.model.survey import Judgement, Lead, Survey, Verdict
from jetq.page import Entry
from jetq.policy.healing import OLDEST, PART, Healer, part
from jetq.policy.liveness import Watch
from jetq.store.steering import Leading

#: Time between two turns (s).
TURN_S = 0.5
#: Longer between two turns, and nothing is known of what happened meanwhile (s).
GAP_S = 3 * TURN_S
#: Jobs that one audit looks at.
AUDIT = 500
#: Share of ``dead_s`` that a lease lasts without a renewal.
LEASE = 0.6
#: A server's clock that moves this much more than one's own was set (s).
STEP_S = 1.0
#: Nodes have this share of ``dead_s`` to say what runs, after the server was started anew.
RESYNC = 0.6

_log = Log("leader")


class LeaderLedger(Leading, Protocol):
    """What it asks of the ledger."""

    def reassert(self, node: str, epoch: str, entries: Iterable[Entry]) -> int:
        """Say what runs here to a server that may have lost the claims. Returns how many it had lost."""
        ...


@dataclass(frozen=True, slots=True)
class _Clocks:
    """One's own clock and the server's, read together (s)."""

    own_s: float
    server_s: float


class Leader:
    """One agent's part in leading. ``turn`` is called twice a second by one thread; others may read the properties."""

    def __init__(
        self,
        ledger: LeaderLedger,
        node: str,
        epoch: str,
        running: Callable[[], Iterable[Entry]],
        *,
        dead_s: float,
        clock: Clock,
    ) -> None:
        """``running``: what this node runs, for a server that was started anew."""
        self._ledger = ledger
        self._running = running
        self._node = node
        self._epoch = epoch
        self._dead_s = dead_s
        self._clock = clock
        self._watch = Watch(dead_s)
        self._healer = Healer()
        self._term = 0
        self._audited = ""  # how far
        self._last: _Clocks | None = None
        self._unsure_since_s: float | None = None

    @property
    def leads(self) -> bool:
        """Whether this agent led when it last asked."""
        return self._term > 0

    @property
    def term(self) -> int:
        """The reign in which it leads; 0: it does not."""
        return self._term

    @property
    def epoch(self) -> str:
        """The run of the agent."""
        return self._epoch

    def turn(self) -> None:
        """Take or renew the lease; do the cluster's work if it is held.

        Raises:
            BrokerDown: no answer.
        """
        lead = self._ledger.lead(self._node, self._epoch, lease_s=self._dead_s * LEASE)
        now = _Clocks(self._clock(), lead.time_s)
        last, self._last = self._last, now
        if lead.unsure and (lost := self._ledger.reassert(self._node, self._epoch, self._running())):
            _log.warning("claims.made_again", jobs=lost)
        reigns_on = lead.term == self._term
        if not reigns_on:
            _log.info("leader.elected" if lead.term else "leader.stands_down", node=self._node, term=lead.term)
            self._term = lead.term
        fresh = last is not None and now.own_s - last.own_s <= GAP_S
        if not fresh:
            self._watch.forget()
        if not (fresh and reigns_on):
            self._healer.forget()
        if not lead.term:
            self._stand_by(lead, now.own_s)
            return
        if last is not None and (fresh or reigns_on):
            self._follow_clock(last, now)
        self._lead(lead, now)

    def audit(self) -> None:
        """Look through the next jobs for such that stand nowhere. Whatever led there, they are mended, and told of.

        Raises:
            BrokerDown: no answer.
        """
        if self._term:
            self._audited, mended = self._ledger.audit(self._epoch, self._term, self._audited, limit=AUDIT)
            for job in mended:
                _log.error("job.mended", job=job, why="it stood nowhere; please report this")

    def _lead(self, lead: Lead, now: _Clocks) -> None:
        survey = self._ledger.survey(self._epoch, self._term, oldest=OLDEST, part=part(now.own_s), size=PART)
        if survey is None:
            return
        if lead.unsure:
            self._wait_for_nodes(survey, now.own_s)
            return
        self._unsure_since_s = None
        for judgement in self._watch.look(survey, now.own_s):
            if self._ledger.judge(self._epoch, self._term, judgement):
                _tell_judgement(judgement)
        verdicts = self._healer.look(survey, now.own_s)
        if verdicts:
            for verdict, state in zip(verdicts, self._ledger.heal(self._epoch, self._term, verdicts), strict=True):
                _tell_verdict(verdict, state)
        self._ledger.due(expected_s=now.server_s + self._clock() - now.own_s)

    def _stand_by(self, lead: Lead, now_s: float) -> None:
        """Listen to the node that leads: if it goes silent, whoever leads next has counted from its last beat on."""
        self._unsure_since_s = None
        if lead.unsure:
            self._watch.forget()
        elif lead.leader is not None:
            self._watch.hear(lead.leader.node, lead.leader.epoch, lead.leader.seq, now_s)

    def _follow_clock(self, last: _Clocks, now: _Clocks) -> None:
        """Move all times if the server's clock was set. That ends a lease: whoever then leads first has seen it."""
        step_s = (now.server_s - last.server_s) - (now.own_s - last.own_s)
        if abs(step_s) > STEP_S:
            _log.warning("clock.set", by_s=step_s, what="all times that jobs wait for are moved")
            self._ledger.shift(self._epoch, self._term, step_s)

    def _wait_for_nodes(self, survey: Survey, now_s: float) -> None:
        """Let the nodes say what runs; then this run of the server is the one that counts."""
        self._watch.forget()
        self._healer.forget()
        if self._unsure_since_s is None:
            _log.warning(
                "broker.resync", what="the broker was started anew; nodes say what runs before anything is claimed"
            )
            self._unsure_since_s = now_s
        if now_s - self._unsure_since_s >= self._dead_s * RESYNC:
            self._healer.forgive(survey)
            self._ledger.resynced(self._epoch, self._term)
            self._unsure_since_s = None
            _log.info("broker.resynced", nodes=len(survey.nodes))


def _tell_judgement(judgement: Judgement) -> None:
    tell = _log.error if judgement.state == "dead" else _log.warning
    tell(f"node.{judgement.state}", node=judgement.node, why=judgement.why)


def _tell_verdict(verdict: Verdict, state: str) -> None:
    if state:
        _log.warning("job.healed", job=verdict.job_id, node=verdict.node, why=verdict.why, now=state)
