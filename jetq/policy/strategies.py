"""Routing strategies: a name, a mode the ledger's script knows, and what one lease costs on a node."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Literal

from jetq.errors import UsageError

#: Installed packages add strategies here: each entry point names a :class:`Strategy`.
GROUP = "jetq.strategies"
DEFAULT = "dynamic"
#: A rate is never larger: a node whose trim or prior is absurd still has a finite, comparable score.
MAX_RATE = 1e6

Mode = Literal["least", "stride"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a strategy may know of a node when it sets the node's rate."""

    slots: int
    prior: float  # speed of one slot before anything is learned, a PC = 1.0
    trim: float  # 0.25..1, how much of that it is worth right now

    @property
    def weight(self) -> float:
        """The static weight."""
        return self.slots * self.prior


#: What one more lease costs on a node of that capacity; the smallest score is picked.
Rate = Callable[[Capacity], float]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How to choose among the nodes that have a free slot. No I/O: the ledger's script does the choosing.

    ``least`` picks the smallest ``(leases + 1) * rate``, or, where it learns, ``(slots + leases + 1) * rate``: a job
    runs about as fast beside others as alone, but a full node is worth half of an empty one (docs/adr/0003).
    ``stride`` picks the smallest pass value, which grows by ``rate`` at each pick: with rate 1 everybody in turn, with
    rate 1/weight weighted round robin.
    """

    name: str
    mode: Mode
    rate: Rate
    learns: bool = False  # only ``least``: add what reaching the node costs, divide by the speed learned for the task

    @property
    def how(self) -> str:
        """The mode as the ledger's scripts name it: ``least``, ``learned`` or ``stride``."""
        return "learned" if self.learns and self.mode == "least" else self.mode

    def score(self, leases: float, slots: int, rate: float, *, speed: float = 1.0, net: float = 0.0) -> float:
        """Return the score of a node in mode ``least``; the ledger's script computes the same."""
        if not self.learns:
            return (leases + 1) * rate
        return ((slots + leases + 1) * rate + net) / speed


BUILT_IN: dict[str, Strategy] = {
    s.name: s
    for s in (
        Strategy("round_robin", "stride", lambda _: 1.0),
        Strategy("least_connections", "least", lambda node: 1.0 / node.slots),
        Strategy("weighted", "stride", lambda node: 1.0 / node.weight),
        Strategy("dynamic", "least", lambda node: 1.0 / (node.weight * node.trim), learns=True),
    )
}


@lru_cache(maxsize=1)
def known() -> dict[str, Strategy]:
    """Return all strategies by name: the built-in ones and those that installed packages add.

    Raises:
        UsageError: an added one cannot be loaded, is no ``Strategy``, or takes a name that is in use.
    """
    found = dict(BUILT_IN)
    for point in entry_points(group=GROUP):
        try:
            own = point.load()
        except (ImportError, AttributeError) as exc:
            raise UsageError(f"strategy {point.name!r} ({point.value}) cannot be loaded: {exc}") from exc
        if not isinstance(own, Strategy) or own.mode not in ("least", "stride"):
            raise UsageError(f"strategy {point.name!r}: {point.value} must be a jetq.policy.strategies.Strategy")
        if own.name in found:
            raise UsageError(f"strategy {own.name!r} ({point.value}) exists already; give it another name")
        found[own.name] = own
    return found


def get(name: str) -> Strategy:
    """Return one strategy.

    Raises:
        UsageError: no strategy has this name; the message lists the nearest.
    """
    have = known()
    if name in have:
        return have[name]
    near = difflib.get_close_matches(name, have, n=2, cutoff=0.4) or sorted(have)
    raise UsageError(f"no strategy is called {name!r}; did you mean {' or '.join(near)}?")


def rates(slots: int, prior: float, trim: float) -> dict[str, float]:
    """Return what one lease more costs on a node, for every known strategy; this goes into its beat.

    Args:
        slots: the node's slots, 1 or more.
        prior: speed of one slot before anything is learned, a PC = 1.0 (policy/boards.py).
        trim: 0.25..1, from policy/trim.py.
    """
    node = Capacity(slots, prior, trim)
    return {name: sane_rate(own.rate(node)) for name, own in known().items()}


def sane_rate(rate: float) -> float:
    """Return a rate that can be compared, whatever a strategy gave."""
    return min(rate, MAX_RATE) if math.isfinite(rate) and rate > 0 else MAX_RATE
