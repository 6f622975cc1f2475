"""What would be started if a gang were sent now: placement and plan, as a value. Pure.

What only preparing finds out (interfaces, networks, folders, ports) stands there as a word in capitals or is assumed,
and the notes say so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jetq.errors import MembersUnfit
from jetq.launch.base import Member, Plan, Run
from jetq.launch.plans import plan
from jetq.model.beat import NodeRow
from jetq.model.gang import GangSpec
from jetq.policy.backfill import decide
from jetq.policy.fits import never_fits
from jetq.policy.outlook import outlooks
from jetq.policy.timetable import Room
from jetq.policy.turns import QueuedGang

#: What stands for the gang's id, its members' folders and their interfaces.
ID, FOLDER, INTERFACE = "ID", "/FOLDER", "INTERFACE"
#: The port and the version of Open MPI that are assumed.
PORT, OPEN_MPI = 29500, 5


@dataclass(frozen=True, slots=True)
class Preview:
    """How a gang would be started."""

    nodes: tuple[str, ...]  # the head first
    addresses: tuple[str, ...]  # of them
    waits: str  # why it would not start now; "": it would
    plan: Plan
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "nodes": list(self.nodes),
            "starts_now": not self.waits,
            "reason": self.waits or None,
            **self.plan.as_json(),
            "notes": list(self.notes),
        }


def preview(
    spec: GangSpec,
    rooms: Sequence[Room],
    rows: Iterable[NodeRow],
    waiting: Sequence[QueuedGang],
    now_s: float,
    *,
    over_streams: bool = False,
) -> Preview:
    """Return how the gang would be started.

    Args:
        spec: what is asked for.
        rooms: the nodes as gangs see them.
        rows: the same nodes, with their addresses.
        waiting: the gangs that are in the queue already.
        now_s: on the broker's clock, like the times in ``rooms``.

    Raises:
        NeverFits: it never would. MembersUnfit: these nodes do not go together.
    """
    gang = QueuedGang.of(ID, spec, submitted_s=now_s, over_streams=over_streams)
    fault = never_fits(gang, rooms)
    if fault is not None:
        raise fault
    queue = [*waiting, gang]
    decision = decide(queue, rooms, now_s)
    nodes = next((start.nodes for start in decision.starts if start.gang_id == ID), ())
    waits = "" if nodes else outlooks(decision, queue, rooms, now_s)[ID].why
    kept = next((booked.nodes for booked in decision.reservations if booked.gang_id == ID), ())
    could = tuple(room.name for room in rooms if room.could(spec.needs))
    nodes = nodes or kept or could[: spec.min_nodes]
    known = {row.name: row for row in rows}
    members = [_member(known[node]) for node in nodes]
    run = Run(ID, PORT, {"JETQ_JOB_ID": ID, "JETQ_ATTEMPT": "1", "JETQ_WORLD": str(spec.world_size(len(nodes)))})
    made = plan(spec, members, run)
    return Preview(nodes, tuple(member.address for member in members), waits, made, (*_notes(spec), *made.notes))


def _member(row: NodeRow) -> Member:
    if not row.address:
        raise MembersUnfit(f"node {row.name} does not say its address; start it anew, with this version of jetq")
    network = str(ipaddress.ip_network(row.address))  # the address alone
    return Member(row.name, row.address, network, INTERFACE, FOLDER, row.slots, row.gpu, OPEN_MPI)


def _notes(spec: GangSpec) -> list[str]:
    found = [
        f"interfaces, networks and folders are found on each node when it starts; the port is leased then, not {PORT}"
    ]
    if spec.launcher == "mpirun":
        found.append(f"Open MPI {OPEN_MPI} is assumed; the flags of 4 differ, and all nodes must have the same")
    return found
