"""One more role of the ledger: of the agent that leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from jetq.model.claim import Ended
from jetq.model.survey import Judgement, Lead, Survey, Verdict


class Leading(Protocol):
    """What the leader asks. Whatever comes under a term that is over does nothing."""

    def lead(self, node: str, epoch: str, *, lease_s: float) -> Lead:
        """Take or renew the leader's lease."""
        ...

    def survey(self, epoch: str, term: int, *, oldest: int, part: int = 0, size: int = 25) -> Survey | None:
        """Look at all nodes and at the ``oldest`` jobs of shared queues. None: the term is over.

        And at one ``part`` of the others (it wraps around): ``size`` jobs where messages are missing, else ``oldest``.
        """
        ...

    def judge(self, epoch: str, term: int, judgement: Judgement) -> bool:
        """Make a node suspect or dead. False: it has shown up meanwhile, or the term is over."""
        ...

    def heal(self, epoch: str, term: int, verdicts: Sequence[Verdict]) -> list[str]:
        """Mend what was found broken. Returns the state of each job now, "" where nothing was done."""
        ...

    def due(self, limit: int = 100, *, expected_s: float | None = None) -> bool:
        """Publish what is due, expire what is late. False: the server's clock is not where it was expected."""
        ...

    def untold(self, limit: int = 100) -> list[Ended]:
        """Return what ended outside a lane and was not yet told to Celery; each comes again after 10 s."""
        ...

    def told(self, job_id: str) -> None:
        """Celery has been told of an ``Ended`` job."""
        ...

    def audit(self, epoch: str, term: int, after: str, *, limit: int) -> tuple[str, list[str]]:
        """Look through ``limit`` jobs for such that stand nowhere, and mend them.

        Returns where to go on ("": all were looked at), and the ids of those that were mended.
        """
        ...

    def shift(self, epoch: str, term: int, by_s: float) -> None:
        """Move every time that something waits for: the server's clock was set."""
        ...

    def resynced(self, epoch: str, term: int) -> None:
        """All nodes had their time to say what runs on a server that was started anew."""
        ...

    def fresh_runs(self) -> dict[str, dict[str, list[float]]]:
        """Return the run times (s, newest first) by board of each task name that has new ones; ask once."""
        ...

    def set_speeds(self, name: str, speeds: Mapping[str, float]) -> None:
        """Keep the learned speed of a task name on each board (prior = 1)."""
        ...
