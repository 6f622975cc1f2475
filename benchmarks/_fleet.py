"""The mixed cluster and the traces that all routing figures are measured on."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jetq.policy import boards

#: Mean size of a job (s of work at speed 1), in both mixes.
MEAN_SIZE_S = 0.4
#: Bimodal: this share of the jobs is short, the rest long (s).
SHORT_SHARE, SHORT_S, LONG_S = 0.95, 0.08, 6.5
MIXES = ("exponential", "bimodal")
RHOS = (0.5, 0.8)
#: Share of the jobs, from the start, that only warm the system up.
WARM_UP = 0.1


@dataclass(frozen=True, slots=True)
class Machine:
    """One emulated node: a job of size s takes s / speed on one of its slots."""

    name: str
    slots: int
    speed: float
    board: str  # a model of the prior table whose prior is about this fast, relative to the others

    @property
    def prior(self) -> float:
        """What the router believes before it has learned anything."""
        return boards.prior(self.board)


@dataclass(frozen=True, slots=True)
class Job:
    """One arrival."""

    at_s: float
    size_s: float


def fleet() -> list[Machine]:
    """Return 10 nodes with 20 slots: 2 x 4 at speed 2, 4 x 2 at 1.25, 4 x 1 at 0.7."""
    kinds = [(2, 4, 2.0, "AGX Orin 64GB"), (4, 2, 1.25, "AGX Xavier"), (4, 1, 0.7, "TX2")]
    plan = [kind[1:] for kind in kinds for _ in range(kind[0])]
    return [Machine(f"n{i}", slots, speed, board) for i, (slots, speed, board) in enumerate(plan)]


def capacity(machines: list[Machine]) -> float:
    """Return how many seconds of work the whole fleet does in one second."""
    return sum(m.slots * m.speed for m in machines)


def trace(mix: str, rho: float, jobs: int, seed: int) -> list[Job]:
    """Return Poisson arrivals that load the fleet to ``rho``, same seed same trace."""
    draw = random.Random(f"{mix} {rho} {seed}")
    rate = rho * capacity(fleet()) / MEAN_SIZE_S
    at_s, out = 0.0, []
    for _ in range(jobs):
        at_s += draw.expovariate(rate)
        out.append(Job(at_s, _size(mix, draw)))
    return out


def _size(mix: str, draw: random.Random) -> float:
    if mix == "exponential":
        return draw.expovariate(1 / MEAN_SIZE_S)
    return SHORT_S if draw.random() < SHORT_SHARE else LONG_S
