"""What reservations keep free on each node, as router and lanes are told it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jetq.policy.timetable import Reservation


@dataclass(frozen=True, slots=True)
class Planned:
    """What is kept on a node for gangs. Router and lanes add it to the leases, except for jobs that it lets pass."""

    slots: float
    gpu: int
    mem_bytes: int
    start_s: float | None  # None: closed

    def lets(self, ends_s: float) -> bool:
        """Whether a job that is predicted to end then may use the node all the same; claim.lua asks this, too."""
        return self.start_s is not None and ends_s <= self.start_s


def planned(reservations: Sequence[Reservation]) -> dict[str, Planned]:
    """Return what is planned on each node: the most at any one time, and when the first of it starts."""
    found: dict[str, Planned] = {}
    for node in dict.fromkeys(node for booked in reservations for node in booked.on):
        here = [booked for booked in reservations if node in booked.on]
        together = [[b.needs for b in here if node in b.closed or b.start_s <= at.start_s < b.end_s] for at in here]
        closed = any(node in booked.closed for booked in here)
        found[node] = Planned(
            max(sum(needs.slots for needs in group) for group in together),
            max(sum(needs.gpu for needs in group) for group in together),
            max(sum(needs.mem_bytes for needs in group) for group in together),
            None if closed else min(booked.start_s for booked in here),
        )
    return found
