"""The members of gangs: one on each of a gang's nodes, sent by the leader and by nobody else."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from jetq import wire


@shared_task(name="gang.member", jetq={"kind": "gang"}, resultrepr_maxsize=200)
def member() -> dict[str, Any]:
    """Prepare with the other members, run this node's ranks, and report how they ended."""
    return wire.run_member()
