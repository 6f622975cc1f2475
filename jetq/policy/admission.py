"""Whether a job may be sent at all: does any node know its task, and can any ever serve what it needs? Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from jetq.errors import NoNodeCarries, UsageError
from jetq.model.beat import NodeRow
from jetq.model.needs import Needs
from jetq.policy import strategies
from jetq.policy.explain import explain

#: A message names so many nodes, and counts the others.
_NAMED = 4


def unknown(name: str, known: Collection[str]) -> UsageError | None:
    """Return what to say of a task that no node has loaded.

    Args:
        name: task name.
        known: the names all nodes have loaded; where it is empty nothing is known, and the job waits for a node.
    """
    if name in known or not known:
        return None
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return UsageError(f"no node knows a task called {name!r}; did you mean {' or '.join(near)}?")
    some = ", ".join(sorted(known)[:8])
    return UsageError(f"no node knows a task called {name!r}; they know {some}{', …' if len(known) > 8 else ''}")


def unserved(needs: Needs, nodes: Sequence[NodeRow]) -> NoNodeCarries | None:
    """Return what to say of needs that no node which is there can ever serve. Plain ones are always fine."""
    if needs == Needs():
        return None
    there = [node for node in nodes if node.state != "gone"]
    standings = explain(there, needs, strategies.get(strategies.DEFAULT))
    if any(standing.eligible for standing in standings):
        return None
    each = "; ".join(f"{standing.node} {standing.why}" for standing in standings[:_NAMED]) or "no node is there"
    more = f"; and {len(standings) - _NAMED} more" if len(standings) > _NAMED else ""
    return NoNodeCarries(f"no node can serve this job: {each}{more} (wait for one: --wait-for-node)")
