"""What placing a stream compares, node by node: the numbers that people are shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jetq.policy.seats import Seating, Stream, StreamNode, why_never


@dataclass(frozen=True, slots=True)
class Offer:
    """What one node would be for a stream."""

    node: str
    slots: float  # that it would cost there
    decode: float  # share of the decoder
    fill: float  # of the node, without it
    price: float  # how full the node would be of what it is worth; the least one wins
    hot: bool  # comes after all that are not
    why_not: str  # it cannot be started there now; "": it can
    seat: str = ""  # owner or heir: it is there already

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def offers(stream: Stream, streams: Sequence[Stream], nodes: Sequence[StreamNode]) -> list[Offer]:
    """Return what each node offers to a new stream, in the order in which placement would take them."""
    seating = Seating(nodes, [other for other in streams if other.id != stream.id])
    found = []
    for node in nodes:
        costs = seating.cost(stream, node.name)
        found.append(
            Offer(
                node.name,
                costs.slots,
                costs.decode,
                seating.fill(node.name),
                seating.price(stream, node.name),
                node.hot,
                seating.why_not(stream, node.name),
                _seat(stream, node.name),
            )
        )
    return sorted(found, key=lambda offer: (bool(offer.why_not), offer.hot, offer.price, offer.node))


def _seat(stream: Stream, node: str) -> str:
    seats = {"owner": stream.owner, "heir": stream.heir}
    return next((name for name, seat in seats.items() if seat is not None and seat.node == node), "")


def never(stream: Stream, nodes: Sequence[StreamNode]) -> str:
    """Return why no node that is there could ever run a stream, "" if one could."""
    reasons = {node.name: why_never(stream, node) for node in nodes}
    if not reasons:
        return "no node is there"
    if not all(reasons.values()):
        return ""
    return "no node could run it: " + "; ".join(f"{name} {why}" for name, why in sorted(reasons.items()))
