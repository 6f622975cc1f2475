"""What follows when a gang's attempt fails: its root cause, and whether there is another attempt. Pure.

One count for the whole gang. Failures of the machinery (a node, an agent, a lost lease) and of the program have budgets
of their own: a bad script is not run five times, and a bad night of the network does not use up the program's retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jetq.errors import UsageError
from jetq.policy.backoff import pause_s

#: Attempts after failures of the machinery, and after failures of the program, unless the gang says otherwise.
INFRA_RETRIES, APP_RETRIES = 5, 0
#: An attempt that ran longer (s) shows that the machinery works: its failures before are forgotten.
GOOD_RUN_S = 600.0
#: The pause before an attempt that a failure of the program, or a second one of the machinery, made necessary (s).
PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0

#: How a text begins that goes on from "node x"; any other is a sentence. Some of these say themselves whom they mean.
_PREDICATES, _NAMED = ("was ", "has ", "lost ", "ended ", "found "), ("node ", "the gang ")

#: Who pays: the machinery's budget, the program's, or nobody (a refusal in prepare, a drain, a planned move).
Cost = Literal["infra", "app", "none"]


@dataclass(frozen=True, slots=True)
class Budget:
    """How many more attempts each kind of failure may lead to."""

    infra: int = INFRA_RETRIES
    app: int = APP_RETRIES

    def __post_init__(self) -> None:
        if self.infra < 0 or self.app < 0:
            raise UsageError(f"retries must be 0 or more, not {min(self.infra, self.app)}")


@dataclass(frozen=True, slots=True)
class Tally:
    """What a gang has used up."""

    attempt: int = 0  # of the whole gang; counts what ran, so that a refusal in prepare leaves no gap
    infra: int = 0  # failures since the last good run
    app: int = 0

    def begun(self) -> Tally:
        """Return the tally of a gang whose ranks start now."""
        return replace(self, attempt=self.attempt + 1)


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong in an attempt."""

    at_s: float  # on the broker's clock; of a node that was lost: when it was last heard of, not when it was missed
    cost: Cost
    node: str
    why: str  # "exited with code 1", "was lost: ...", or a sentence
    rank: int | None = None  # None: the node itself

    def __str__(self) -> str:
        """Say who failed, and how: a sentence has its own subject, and stands behind a colon."""
        if self.rank is not None:
            return f"rank {self.rank} on {self.node} {self.why}"
        if self.why.startswith(_NAMED):
            return self.why
        return f"node {self.node}{' ' if self.why.startswith(_PREDICATES) else ': '}{self.why}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows."""

    again: bool  # False: the gang is FAILED
    tally: Tally
    not_before_s: float  # of the next attempt
    root: Failure
    reason: str


def root_cause(failures: Sequence[Failure]) -> Failure:
    """Return the first failure by time: all others follow from it. ``failures``: one or more.

    Ask once every member has reported or is known to be lost: the ranks beside a node that lost its power fail at once,
    and it is missed only seconds later. At the same moment a node comes before its ranks, then the lowest rank.
    """
    return min(failures, key=lambda f: (f.at_s, f.rank is not None, f.rank or 0, f.node))


def judge(tally: Tally, failures: Sequence[Failure], budget: Budget, *, began_s: float, now_s: float) -> Verdict:
    """Return what follows from an attempt that failed.

    Args:
        tally: with this attempt counted (:meth:`Tally.begun`).
        failures: all that went wrong, any order; only the root cause is charged.
        began_s: when the ranks of this attempt started.
    """
    root = root_cause(failures)
    if root.cost == "none":
        return Verdict(True, tally, now_s, root, f"{root}; it is tried again, no retry charged")
    if root.cost == "app":
        used = replace(tally, app=tally.app + 1)
        return _judged(used, root, used.app, budget.app, "the program", used.app, now_s)
    before = 0 if now_s - began_s > GOOD_RUN_S else tally.infra
    used = replace(tally, infra=before + 1)
    return _judged(used, root, used.infra, budget.infra, "nodes", used.infra - 1, now_s)


def restart_bounds(least: int, most: int, had: int, *, shared: bool) -> tuple[int, int, str]:
    """Return the least and most nodes of the next attempt, and why it may not be smaller ("" if it may).

    Args:
        least, most: what the gang asked for.
        had: the nodes of the attempt that failed.
        shared: whether its checkpoints are on storage that all nodes have (``JETQ_SHARED``).
    """
    if shared or least == had:
        return least, most, ""
    why = f"it cannot go on with fewer than {had} nodes: its checkpoints are not on storage that all nodes share"
    return had, most, f"{why} (set JETQ_SHARED)"


def _judged(used: Tally, root: Failure, count: int, allowed: int, whose: str, pauses: int, now_s: float) -> Verdict:
    if count > allowed:
        none = f"there is no retry for failures of {whose}"
        spent = none if not allowed else f"all {allowed} retries for failures of {whose} are used up"
        return Verdict(False, used, now_s, root, f"{root}; {spent}")
    reason = f"{root}; attempt {used.attempt + 1} follows, retry {count} of {allowed} for failures of {whose}"
    return Verdict(True, used, now_s + pause_s(pauses, first_s=PAUSE_S, most_s=LONGEST_PAUSE_S), root, reason)
