"""Open MPI's hostfile: one line a machine. Tried with Open MPI 4.1.4 and 5.0.11, which both take the comments."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jetq.errors import JetqError, UsageError
from jetq.model.beat import NodeRow

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


def of_nodes(rows: Iterable[NodeRow], rule: str | int | None = None) -> list[Host]:
    """Return the machines of the nodes that are up.

    Args:
        rows: all nodes.
        rule: slots of a machine: its ``cores``, its GPUs (``gpu``; one without is left out) or a number; None: the
            slots of its nodes.

    Raises:
        JetqError: none is left, or mpirun cannot reach one by the address it says.
    """
    rows = [row for row in rows if row.state == "up"]
    if not rows:
        raise JetqError("no node is up; start one with `jetq worker` or `jetq up`, or see `jetq node list`")
    _check_addresses(rows)
    shares = (Host(row.address, _slots(row, rule), (row.name,)) for row in rows)
    hosts = [host for host in merged(shares, adding="sum" if rule is None else "most") if host.slots]
    if not hosts:
        raise JetqError("no node that is up has a GPU; leave out --slots gpu")
    return hosts


def _slots(row: NodeRow, rule: str | int | None) -> int:
    if rule is None:
        return row.slots
    return rule if isinstance(rule, int) else row.gpu if rule == "gpu" else row.cores


def _check_addresses(rows: Sequence[NodeRow]) -> None:
    several = len({row.address for row in rows}) > 1
    for row in rows:
        if not row.address:
            raise JetqError(f"node {row.name} does not say its address; start it anew, with this version of jetq")
        address = ipaddress.ip_address(row.address)
        if address.version != 4:
            raise JetqError(f"node {row.name} has {address}, but mpirun needs an IPv4 address; give it one with --http")
        if address.is_loopback and several:
            raise JetqError(
                f"node {row.name} has {address}, which other machines do not reach; "
                "start it with --http ADDR (jetq up: with --listen ADDR)"
            )


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
