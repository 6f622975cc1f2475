"""Say each second that the node lives and what it is like; keep the ledger's answer for the agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from jetq.clock import Clock
from jetq.errors import BrokerFull
from jetq.log import Log
from jetq.model.beat import Beat, BeatReply, Metrics, NodeFacts
from jetq.policy import boards, net, strategies
from jetq.policy.health import Health
from jetq.policy.senses import Senses
from jetq.probe.base import Probe
from jetq.store.base import NodeKeeper

_log = Log("beat")


@dataclass(frozen=True, slots=True)
class Word:
    """What the agent adds to a beat."""

    state: str  # starting, up or stopping
    running: tuple[tuple[str, str], ...]  # (job id, claimer)
    reserved: tuple[str, ...]  # job ids


class Beater:
    """Takes a reading, turns it into rates and trim, and sends it. ``beat`` may be called from any thread."""

    def __init__(
        self,
        facts: NodeFacts,
        keeper: NodeKeeper,
        probe: Probe,
        word: Callable[[], Word],
        *,
        clock: Clock,
        answered: Callable[[BeatReply, float], None],
        unserved: Callable[[float], None],
    ) -> None:
        """``answered`` gets each answer, ``unserved`` the lack of one that is everybody's, with the beat's time."""
        self._facts = facts
        self._keeper = keeper
        self._probe = probe
        self._word = word
        self._clock = clock
        self._answered = answered
        self._unserved = unserved
        self._health = Health()
        self._rtt = net.smooth_rtt()
        self._prior = boards.prior(facts.board)
        self._seq = 0
        self._senses = Senses()
        self._excluded = ""
        self._blind = ""
        self._lock = threading.Lock()

    @property
    def excluded(self) -> str:
        """Why the node must get no new work; "" if it may."""
        return self._excluded

    def rates(self) -> dict[str, float]:
        """Return what one lease more costs here, by strategy, as far as is known now."""
        return strategies.rates(self._facts.slots, self._prior, self._health.value)

    def beat(self) -> None:
        """Send one beat.

        Raises:
            BrokerDown: no answer, or none that counts.
        """
        with self._lock:
            beat = self._made()
            sent_s = self._clock()
            try:
                reply = self._keeper.beat(beat)
            except BrokerFull:
                self._unserved(sent_s)
                raise
            self._rtt = self._rtt.after(self._clock() - sent_s, self._clock())
            self._health.ended(self._clock(), ended=reply.ended, failed=reply.failed)
        self._answered(reply, sent_s)

    def _made(self) -> Beat:
        self._seq += 1
        reading = self._probe.read()
        metrics = replace(reading.metrics, rtt_s=self._rtt.value)
        trim = self._health.observe(
            metrics, self._clock(), own_cpu=reading.own_cpu, blind=self._is_blind(reading.metrics)
        )
        word = self._word()
        return Beat(
            node=self._facts.name,
            epoch=self._facts.epoch,
            seq=self._seq,
            state=self._judged(word.state, self._health.excluded(metrics)),
            rates=self.rates(),
            net=net.net(self._rtt.value),
            weight=self._facts.slots * self._prior,
            trim=trim,
            metrics=metrics,
            running=word.running,
            reserved=word.reserved,
        )

    def _is_blind(self, metrics: Metrics) -> bool:
        """Tell whether the readings cannot be believed: the node then gets work last."""
        blind = self._senses.why_blind(metrics, self._clock())
        if bool(blind) != bool(self._blind):
            _log.warning("node.blind" if blind else "node.sees_again", why=blind or self._blind)
        self._blind = blind
        return bool(blind)

    def _judged(self, state: str, excluded: str) -> str:
        """Return the state to tell: a node without memory, or too hot, takes no new work until it is well again."""
        if excluded != self._excluded:
            _log.warning("node.excluded" if excluded else "node.included_again", why=excluded or self._excluded)
            self._excluded = excluded
        return "draining" if excluded and state == "up" else state
