"""Which jobs are in nobody's hand: found from what nodes say, twice, never from a stamp. Pure.

What was seen once is only remembered; it counts when the node has beaten twice since (a beat that was on its way, and
one that was made later), or, where no node is asked, after some seconds on the leader's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetq.model.claim import Held
from jetq.model.survey import ABSENT, Action, NodeView, Survey, Verdict

#: Beats that must pass before a job that they do not name is lost.
BEATS = 2
#: A message that lies in a node's list although the node has a free slot is taken out after this long (s).
STUCK_S = 10.0
#: A job of a shared queue that has waited this long is looked for in its list (s).
MISSING_S = 2.0
#: How many of the longest waiting jobs are looked for. They may all wait for a node that never comes, so as many of the
#: others are looked for at a time, for so long (s); more of them while the lists are too short.
OLDEST, PART, PART_S = 5, 25, 3.0

_CLAIMED = frozenset({"RUNNING", "FINISHING"})


@dataclass(slots=True)
class _First:
    """When something was first seen: the node's sequence number, and the leader's clock (s)."""

    seq: int
    at_s: float


def part(now_s: float) -> int:
    """Return which part of the waiting jobs to look for beside the oldest; it moves on with the time."""
    return int(now_s / PART_S)


class Healer:
    """Remembers what it has seen once. ``forget`` it after a gap of one's own."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], _First] = {}
        self._seen: set[tuple[str, ...]] = set()
        self._forgiven: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Start over: nothing has been seen."""
        self._first = {}

    def forgive(self, survey: Survey) -> None:
        """Charge nobody for the claims that stand now: the server that knew how they ended was lost."""
        self._forgiven = frozenset(job.token for node in survey.nodes for job in node.held)

    def look(self, survey: Survey, now_s: float) -> list[Verdict]:
        """Return what is broken. ``now_s``: the leader's own clock."""
        self._seen = set()
        verdicts = [self._held(node, job, now_s) for node in survey.nodes for job in node.held]
        in_hand = {job for node in survey.nodes if node.state not in ABSENT for job in node.reserved}
        verdicts += [self._waiting(job, token, now_s) for job, token in survey.waiting if job not in in_hand]
        self._first = {key: first for key, first in self._first.items() if key in self._seen}
        return [verdict for verdict in verdicts if verdict is not None]

    def _held(self, node: NodeView, job: Held, now_s: float) -> Verdict | None:
        if job.node != node.name or (job.state not in _CLAIMED and job.state != "ASSIGNED"):
            return self._lease_of_nothing(node, job, now_s)
        if job.state in _CLAIMED:
            return self._claimed(node, job, now_s)
        if node.state not in ("up", "suspect"):
            return _verdict(job, "again", node, f"its node is {node.state}")
        return self._unclaimed(node, job, now_s)

    def _lease_of_nothing(self, node: NodeView, job: Held, now_s: float) -> Verdict | None:
        first = self._since(("lease", node.name, job.job_id, job.token), node.seq, now_s)
        if node.state in ABSENT or node.seq >= first.seq + BEATS:
            return _verdict(job, "free", node, "a lease of a job that is not there")
        return None

    def _claimed(self, node: NodeView, job: Held, now_s: float) -> Verdict | None:
        gone = node.state in ABSENT
        if not gone and (job.job_id, job.claimer) in node.running:
            return None
        first = self._since(("claimed", job.job_id, job.token, job.claimer), node.seq, now_s)
        if not gone and node.seq < first.seq + BEATS:
            return None
        if job.token in self._forgiven:
            return _verdict(job, "again", node, "the broker lost how it ended")
        return _verdict(job, "lost", node, f"its node is {node.state}" if gone else "no process runs it")

    def _unclaimed(self, node: NodeView, job: Held, now_s: float) -> Verdict | None:
        if job.job_id in node.reserved:
            return None
        first = self._since(("unclaimed", job.job_id, job.token), node.seq, now_s)
        if now_s - first.at_s >= STUCK_S and len(node.running) + len(node.reserved) < node.slots:
            return _verdict(job, "stuck", node, "its node had a free slot and did not take it")
        if node.seq >= first.seq + BEATS:
            first.seq = node.seq
            return _verdict(job, "find", node, "its message was lost")
        return None

    def _waiting(self, job: str, token: str, now_s: float) -> Verdict | None:
        first = self._since(("waiting", job, token), 0, now_s)
        if now_s - first.at_s < MISSING_S:
            return None
        first.at_s = now_s
        return Verdict(job, token, "push", "", "its message was lost")

    def _since(self, key: tuple[str, ...], seq: int, now_s: float) -> _First:
        self._seen.add(key)
        return self._first.setdefault(key, _First(seq, now_s))


def _verdict(job: Held, action: Action, node: NodeView, why: str) -> Verdict:
    return Verdict(job.job_id, job.token, action, node.name, why)
