"""Whether a job may be sent at all: does any node know its task, and can any ever serve what it needs? Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence

from jetq.errors import NoNodeCarries, UsageError
from jetq.model.beat import NodeRow
from jetq.model.needs import Needs
from jetq.model.survey import ABSENT
from jetq.policy import strategies
from jetq.policy.explain import explain

#: A message names so many nodes, and counts the others.
_NAMED = 4


#: What each node has loaded: node name -> task names.
Loaded = Mapping[str, Collection[str]]


def knowers(name: str, loaded: Loaded) -> set[str] | None:
    """Return the nodes that know a task. None: nothing is known of any task, or it is Celery's own."""
    if name.startswith("celery.") or not any(loaded.values()):
        return None
    return {node for node, tasks in loaded.items() if name in tasks}


def is_scarce(name: str, nodes: Sequence[NodeRow], loaded: Loaded) -> bool:
    """Tell whether some nodes know a task and one that is there does not: the ledger then makes its jobs ask for it."""
    who = knowers(name, loaded) or set()
    return bool(who) and any(node.name not in who for node in _there(nodes))


def unknown(name: str, loaded: Loaded) -> UsageError | None:
    """Return what to say of a task that no node has loaded; where nothing is known at all, the job waits for a node."""
    known = {task for tasks in loaded.values() for task in tasks}
    if name in known or not known:
        return None
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return UsageError(f"no node knows a task called {name!r}; did you mean {' or '.join(near)}?")
    some = ", ".join(sorted(known)[:8])
    return UsageError(f"no node knows a task called {name!r}; they know {some}{', …' if len(known) > 8 else ''}")


def unserved(name: str, needs: Needs, nodes: Sequence[NodeRow], loaded: Loaded) -> NoNodeCarries | None:
    """Return what to say of a job that no node which is there can ever serve. Plain work that all know is fine."""
    there = _there(nodes)
    who = knowers(name, loaded)
    if needs == Needs() and (who is None or all(node.name in who for node in there)):
        return None
    standings = explain(there, needs, strategies.get(strategies.DEFAULT), name=name, knowers=who)
    if any(standing.eligible for standing in standings):
        return None
    each = "; ".join(f"{standing.node} {standing.why}" for standing in standings[:_NAMED]) or "no node is there"
    more = f"; and {len(standings) - _NAMED} more" if len(standings) > _NAMED else ""
    return NoNodeCarries(f"no node can serve this job: {each}{more}")


def _there(nodes: Sequence[NodeRow]) -> list[NodeRow]:
    return [node for node in nodes if node.state not in ABSENT]
