"""Turn orders and parcels into the publish script's arguments, and its answer back into values. Pure."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from jetq import ids
from jetq.model.needs import Needs, spoken, task_of
from jetq.store.base import Order, Parcel, Placed

#: Jobs per script: 200 hold the server for about 3 ms.
BATCH = 200
_NOBODY = "no node{} carries what it needs ({}); see `jetq node list`, or allow it to wait for such a node"


def lease(needs: Needs, kind: str) -> str:
    """Return what a lease holds, as the ledger stores it."""
    return f"{needs.slots:g} {needs.gpu} {needs.mem_bytes} {kind}"


@lru_cache(maxsize=256)
def cohort_json(needs: Needs) -> str:
    """Return the definition of the cohort that serves ``needs``, as the ledger stores it."""
    return json.dumps(
        {
            "labels": list(needs.labels),
            "slots": max(1.0, needs.slots),
            "gpu": needs.gpu,
            "mem": needs.mem_gib * 1024**3,
        },
        separators=(",", ":"),
    )


def digest(name: str, body: str, needs: Needs) -> str:
    """Return what makes two publishes of one id the same payload: name, body, labels, resources."""
    text = f"{name}\0{body}\0{needs.cohort}\0{needs.slots:g}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def publish_args(
    order: Order, how: str, parcels: Sequence[Parcel], *, wait_for_node: bool = False, declared: str = "-"
) -> list[Any]:
    """Return ARGV of ``publish.lua`` for up to :data:`BATCH` parcels.

    ``how``: least, learned or stride; ``declared``: the version of what tasks ask for that ``order`` follows, "-": any.
    """
    needs = order.needs
    args: list[Any] = [
        ids.random64(),
        f"{random.random():.12f}",
        order.name,
        order.kind,
        order.strategy,
        how,
        needs.cohort,
        cohort_json(needs),
        order.priority,
        lease(needs, order.kind),
        order.max_attempts,
        "1" if wait_for_node else "",
        declared,
    ]
    for p in parcels:
        args += (
            p.job_id,
            p.pub,
            p.digest,
            p.generation,
            p.envelope,
            "" if p.delay_s is None else p.delay_s,
            "" if p.expires_s is None else p.expires_s,
        )
    return args


def read_placed(order: Order, parcels: Sequence[Parcel], answer: Sequence[bytes | str]) -> list[Placed]:
    """Return what became of each parcel."""
    placed = []
    for parcel, row in zip(parcels, answer, strict=True):
        text = row.decode() if isinstance(row, bytes) else row
        verdict, state, node, why = text.split("\t")
        if why.startswith("nobody "):
            cohort = why.removeprefix("nobody ")
            task = task_of(cohort)
            why = _NOBODY.format(f" that knows {task}" if task else "", spoken(cohort))
        placed.append(Placed(parcel.job_id, cast(Any, verdict), state, node or None, why))
    return placed
