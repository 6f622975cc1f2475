"""The plan of a gang, by its launcher."""

from __future__ import annotations

from collections.abc import Sequence

from jetq.launch import mpirun, torchrun
from jetq.launch.base import Member, Plan, Run
from jetq.model.gang import GangSpec


def plan(spec: GangSpec, members: Sequence[Member], run: Run) -> Plan:
    """Return how the gang is started on these members; the first one is the head.

    Raises:
        MembersUnfit: it cannot run on them.
    """
    if spec.launcher == "torchrun":
        return torchrun.plan(spec, members, run)
    return mpirun.plan(spec, members, run)
