"""A plan: what each member of a gang starts, as a value. Pure: made from facts, printed by ``--dry-run``, then run."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jetq.errors import MembersUnfit
from jetq.model.gang import GangSpec

#: The folder of a member in which its ranks run, below its private one; its path is in this variable too.
WORK, WORKDIR = "work", "JETQ_WORKDIR"
#: Names a member's processes: all that it starts has it in its environment.
MEMBER = "JETQ_MEMBER"
#: OpenMP, and with it PyTorch and NumPy, takes so many threads.
THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Member:
    """What preparing found out about one node of a gang."""

    node: str
    address: str  # IP literal at which its peers reach it; nodes of one address share a machine
    network: str  # CIDR of that address, for example 10.0.0.0/24
    interface: str  # that has the address
    folder: str  # absolute, private to this member
    slots: float  # of the node
    gpus: int = 0
    open_mpi: int | None = None  # major version; None: not installed

    @property
    def work(self) -> str:
        """The folder its ranks run in."""
        return f"{self.folder}/{WORK}"


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt to run a gang."""

    id: str  # of job and attempt: no other run has it; with a dot and its index it is the id of a member
    port: int  # leased on the first member
    env: Mapping[str, str] = field(default_factory=dict)  # what jetq tells every rank (JETQ_JOB_ID ...)
    agent: tuple[str, ...] = ("jetq-launch",)  # what mpirun calls to start a daemon on another machine


@dataclass(frozen=True, slots=True)
class Start:
    """What one member does."""

    node: str
    argv: tuple[str, ...]  # empty: nothing by itself
    env: Mapping[str, str]  # added to the member's own environment
    cwd: str
    files: Mapping[str, str]  # absolute path -> text, written before
    ranks: tuple[int, ...]  # global numbers of the ranks that run in its share
    answers_for: str = ""  # it carries out launch requests for this address

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "node": self.node,
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": self.cwd,
            "files": dict(self.files),
            "ranks": list(self.ranks),
            "answers_for": self.answers_for,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """How one attempt is started. The first member is the head: rendezvous or mpirun run there."""

    launcher: str
    starts: tuple[Start, ...]  # in the order of the members
    notes: tuple[str, ...] = ()  # what a person should know of it

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, as ``--dry-run --json`` prints it."""
        return {"launcher": self.launcher, "members": [s.as_json() for s in self.starts], "notes": list(self.notes)}


def check_members(spec: GangSpec, members: Sequence[Member]) -> None:
    """Refuse members on which the spec cannot run.

    Raises:
        MembersUnfit: too few or many, a name twice, no usable address, or too small a node.
    """
    if not spec.min_nodes <= len(members) <= spec.max_nodes:
        raise MembersUnfit(f"the gang runs on {spec.min_nodes} to {spec.max_nodes} nodes, not on {len(members)}")
    names = [member.node for member in members]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MembersUnfit(f"node {twice[0]} was given twice", node=twice[0])
    for member in members:
        _check_room(spec, member)
    _check_addresses(members)


def per_node(member: Member) -> dict[str, str]:
    """Return the variables that bind Gloo, NCCL and TensorPipe to the member's interface (NCCL: ``=`` is exact)."""
    name = member.interface
    return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}", "TP_SOCKET_IFNAME": name}


def threads(members: Sequence[Member], ranks: int, node: str, cores: int) -> dict[str, str]:
    """Return how many threads a rank has for its numbers, where several share a machine; {} where it has it for itself.

    Each would take as many as there are cores: four ranks of PyTorch on one machine took 94 s so, and 22 s with one.
    ``ranks``: on each node. ``cores``: of the machine of ``node``.
    """
    address = next(member.address for member in members if member.node == node)
    beside = ranks * sum(member.address == address for member in members)
    return {THREADS: str(max(1, cores // beside))} if beside > 1 else {}


def common(spec: GangSpec, run: Run) -> dict[str, str]:
    """Return the variables that are the same for all ranks; a rank's output is not held back unless asked."""
    return {"PYTHONUNBUFFERED": "1", **spec.env, **run.env}


def _check_room(spec: GangSpec, member: Member) -> None:
    needs = spec.needs
    if needs.slots > member.slots:
        raise MembersUnfit(
            f"node {member.node} has {member.slots:g} slots, but the gang needs {needs.slots:g} there", node=member.node
        )
    if needs.gpu > member.gpus:
        raise MembersUnfit(f"node {member.node} has no GPU, but the gang needs one there", node=member.node)


def _check_addresses(members: Sequence[Member]) -> None:
    kinds = set()
    for member in members:
        try:
            address = ipaddress.ip_address(member.address)
            network = ipaddress.ip_network(member.network)
        except ValueError as exc:
            raise MembersUnfit(
                f"node {member.node}: {exc}; an address and its network in CIDR form are needed", node=member.node
            ) from exc
        if address.is_unspecified or address not in network:
            raise MembersUnfit(
                f"node {member.node}: {address} is no address in its network {network}", node=member.node
            )
        kinds.add((address.version, address.is_loopback))
    if len({version for version, _loopback in kinds}) > 1:
        raise MembersUnfit("some members have IPv4 addresses and others IPv6 ones; they cannot meet")
    if len({member.address for member in members}) > 1 and (True in {loopback for _version, loopback in kinds}):
        inside = next(member for member in members if ipaddress.ip_address(member.address).is_loopback)
        raise MembersUnfit(f"node {inside.node} has {inside.address}, which no other machine reaches", node=inside.node)
