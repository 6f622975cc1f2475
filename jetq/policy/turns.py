"""Whose turn it is among the gangs that wait. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jetq.model.gang import GangSpec
from jetq.model.needs import Needs
from jetq.policy import runtime
from jetq.policy.timetable import Demand

#: A gang waits this long (s) before it comes first, whatever its priority …
BOUND_S = 600.0
#: … or so many times its own predicted runtime, if that is longer.
BOUND_RUNTIMES = 5.0

#: Gangs of one label class compete for the same nodes: the labels, and whether a GPU is needed.
LabelClass = tuple[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class QueuedGang:
    """A gang that waits for its nodes."""

    id: str
    name: str
    priority: int  # kombu's number: 0 urgent, 3 normal, 6 low
    submitted_s: float  # its age counts from here, also after an attempt that was lost
    least: int  # nodes
    most: int
    needs: Needs  # on each node
    predicted_s: float  # policy/runtime.py
    over_streams: bool = False  # streams may be moved for it
    not_before_s: float = 0.0  # the pause before its next attempt ends

    @classmethod
    def of(
        cls,
        id_: str,
        spec: GangSpec,
        *,
        submitted_s: float,
        runs: Sequence[float] = (),
        over_streams: bool = False,
        not_before_s: float = 0.0,
    ) -> QueuedGang:
        """Return what waits when somebody asked for ``spec``. ``runs``: the last runtimes of its name, newest first."""
        predicted_s = runtime.of_gang(runs, limit_s=spec.time_limit_s)
        return cls(
            id_,
            spec.name,
            spec.priority,
            submitted_s,
            spec.min_nodes,
            spec.max_nodes,
            spec.needs,
            predicted_s,
            over_streams,
            not_before_s,
        )

    @property
    def due_s(self) -> float:
        """When its starvation bound passes."""
        return self.submitted_s + max(BOUND_S, BOUND_RUNTIMES * self.predicted_s)

    @property
    def label_class(self) -> LabelClass:
        """What decides which nodes it competes for."""
        return self.needs.labels, self.needs.gpu

    @property
    def demand(self) -> Demand:
        """What has to fit on each of its nodes."""
        return Demand(self.needs, self.predicted_s, self.over_streams)


def in_turn(queue: Iterable[QueuedGang], now_s: float) -> list[QueuedGang]:
    """Return the gangs in the order in which they are looked at.

    Those whose bound has passed come first, in the order in which it did: nobody overtakes the first of them any more.
    Then priority, then age. Gangs that pause between two attempts are left out.
    """
    awake = [gang for gang in queue if gang.not_before_s <= now_s]
    return sorted(
        awake,
        key=lambda g: (0, g.due_s, g.submitted_s, g.id) if g.due_s <= now_s else (1, g.priority, g.submitted_s, g.id),
    )
