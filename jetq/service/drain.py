"""Follow a drain that people asked for in the ledger: when its grace is over, what still runs is asked to leave."""

from __future__ import annotations

from jetq.clock import Clock
from jetq.log import Log
from jetq.model.beat import BeatReply
from jetq.store.base import NodeKeeper

_log = Log("drain")


class Drain:
    """Whether the node drains, and since when by its own clock."""

    def __init__(self, ledger: NodeKeeper, node: str, epoch: str, *, clock: Clock) -> None:
        self._ledger = ledger
        self._node = node
        self._epoch = epoch
        self._clock = clock
        self._since_s: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether the node takes nothing new."""
        return self._since_s is not None

    def follow(self, reply: BeatReply) -> None:
        """Take the ledger's last answer; call it often.

        Raises:
            BrokerDown: no answer.
        """
        if reply.drain_s is None:
            if self._since_s is not None:
                _log.info("node.resumed", node=self._node)
            self._since_s = None
            return
        if self._since_s is None:
            self._since_s = self._clock()
            _log.info("node.drains", node=self._node, grace_s=reply.drain_s)
        if reply.used_slots and self._clock() - self._since_s >= reply.drain_s:
            evicted = self._ledger.evict(self._node, self._epoch, "its node was drained")
            if evicted:
                _log.warning("node.evicts", node=self._node, jobs=evicted)
