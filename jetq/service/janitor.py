"""Remove what nobody reads any more, rows of nodes long gone, mailboxes of the dead, and keep what is needed yet."""

from __future__ import annotations

from typing import Protocol

from jetq.errors import NodeAlive, NoSuchNode
from jetq.log import Log

_log = Log("janitor")


class Attic(Protocol):
    """What the janitor asks of the ledger."""

    def absent(self, older_than_s: float) -> list[str]:
        """Return the nodes that are gone or dead since so long."""
        ...

    def forget(self, node: str, *, dead_s: float) -> None:
        """Strike a node off."""
        ...

    def mailboxes(self) -> dict[str, str]:
        """Return Celery's reply and event lists that hold something: name -> digest of what is next."""
        ...

    def remove_mailbox(self, name: str) -> None:
        """Delete such a list and what leads to it."""
        ...

    def keep_needed(self) -> None:
        """Let the workdirs of gangs and the models of streams that have not ended stay for another day."""
        ...


class Janitor:
    """Remembers what lay in each mailbox; what still lies there a round later is read by nobody."""

    def __init__(self, attic: Attic, *, keep_s: float, dead_s: float) -> None:
        """``keep_s``: how long a node that is gone stays listed."""
        self._attic = attic
        self._keep_s = keep_s
        self._dead_s = dead_s
        self._before: dict[str, str] = {}

    def turn(self) -> None:
        """Clean once.

        Raises:
            BrokerDown: no answer.
        """
        self._attic.keep_needed()
        for node in self._attic.absent(self._keep_s):
            try:
                self._attic.forget(node, dead_s=self._dead_s)
            except (NodeAlive, NoSuchNode):
                continue  # it came back, or somebody else was quicker
            _log.info("node.forgotten", node=node, after_s=self._keep_s)
        found = self._attic.mailboxes()
        unread = [name for name, next_ in found.items() if self._before.get(name) == next_]
        for name in unread:
            self._attic.remove_mailbox(name)
            _log.info("mailbox.removed", name=name, why="nobody reads it")
        self._before = {name: next_ for name, next_ in found.items() if name not in unread}
