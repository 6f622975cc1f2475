"""Open MPI's hostfile: one line a machine. Tried with Open MPI 4.1.4 and 5.0.11, which both take the comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jetq.errors import UsageError

#: How slots of several nodes on one machine add up: ``sum`` (each brings its own), or ``most`` (all mean the same).
Adding = Literal["sum", "most"]


@dataclass(frozen=True, slots=True)
class Host:
    """One machine: a line of the hostfile."""

    address: str
    slots: int
    nodes: tuple[str, ...]  # that run on it

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"nodes": list(self.nodes)}


def merged(shares: Iterable[Host], *, adding: Adding = "sum") -> list[Host]:
    """Return one host for each address, in order of first appearance: Open MPI takes two lines for two machines."""
    hosts: dict[str, Host] = {}
    for share in shares:
        known = hosts.get(share.address)
        if known is None:
            hosts[share.address] = share
        else:
            slots = known.slots + share.slots if adding == "sum" else max(known.slots, share.slots)
            hosts[share.address] = Host(share.address, slots, (*known.nodes, *share.nodes))
    return list(hosts.values())


def text(hosts: Sequence[Host]) -> str:
    """Return the file: ``ADDRESS slots=N``, with the names of the nodes as a comment."""
    return "".join(f"{host.address} slots={host.slots}  # {' '.join(host.nodes)}\n" for host in hosts)


def slots_rule(word: str) -> str | int:
    """Return how slots are counted: ``cores``, ``gpu``, or so many on each machine.

    Raises:
        UsageError: none of these.
    """
    if word in ("cores", "gpu"):
        return word
    if word.isdecimal() and 1 <= int(word) <= 1024:
        return int(word)
    raise UsageError(f"--slots must be cores, gpu or a number from 1 to 1024, not {word!r}")
