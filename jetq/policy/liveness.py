"""Who has not been heard of: suspect after half the time, dead after all of it. Pure.

A node is judged by its sequence number and the leader's own clock (CLOCK_BOOTTIME), never by a stamp: the clocks of the
broker and of the nodes may be set at any time.
"""

from __future__ import annotations

from jetq.model.survey import ABSENT, Judgement, NodeView, Survey

#: Share of ``dead_s`` after which a silent node gets no new work.
SUSPECT = 0.5


class Watch:
    """Remembers when each node was last heard of. ``forget`` it all after a gap of one's own."""

    def __init__(self, dead_s: float) -> None:
        self._dead_s = dead_s
        self._heard: dict[str, tuple[str, int, float]] = {}  # node -> epoch, seq, at (s)

    def forget(self) -> None:
        """Count from now: while nobody looked, nobody can be said to have been silent."""
        self._heard = {}

    def hear(self, node: str, epoch: str, seq: int, now_s: float) -> None:
        """Remember the last beat of one node: of the leader, by those who may follow it."""
        if self._heard.get(node, ("", -1, 0.0))[:2] != (epoch, seq):
            self._heard[node] = (epoch, seq, now_s)

    def look(self, survey: Survey, now_s: float) -> list[Judgement]:
        """Return the nodes that have been silent for too long. ``now_s``: the leader's own clock."""
        heard = {}
        judgements = []
        for node in survey.nodes:
            if node.state in ABSENT:
                continue
            epoch, seq, at_s = self._heard.get(node.name, ("", -1, now_s))
            if (epoch, seq) != (node.epoch, node.seq):
                at_s = now_s
            heard[node.name] = (node.epoch, node.seq, at_s)
            judgement = self._judged(node, now_s - at_s)
            if judgement is not None:
                judgements.append(judgement)
        self._heard = heard
        return judgements

    def _judged(self, node: NodeView, silent_s: float) -> Judgement | None:
        why = f"no beat of {node.name} for {silent_s:.1f} s"
        if silent_s >= self._dead_s:
            return Judgement(node.name, node.epoch, node.seq, "dead", why)
        if silent_s >= self._dead_s * SUSPECT and node.state != "suspect":
            return Judgement(node.name, node.epoch, node.seq, "suspect", why)
        return None
