"""Why a job would go where it goes: the numbers of each node, in the words of ``jetq route NAME --explain``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jetq.model.beat import NodeRow
from jetq.model.needs import Needs
from jetq.model.survey import ABSENT
from jetq.policy import strategies
from jetq.policy.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Standing:
    """How one node stands for one job. ``score`` is None where the node cannot be picked now."""

    node: str
    rank: int | None  # 1 = picked next; equal scores share a rank and are drawn by lot
    eligible: bool  # it could ever serve the job
    free: bool  # it could now
    score: float | None
    why: str
    used: float
    slots: int
    prior: float
    speed: float  # learned for (task name, board) on top of the prior
    trim: float
    net: float  # service times
    board: str

    def as_json(self) -> dict[str, Any]:
        """Return the standing as plain values."""
        return asdict(self)


def explain(
    nodes: Sequence[NodeRow],
    needs: Needs,
    strategy: Strategy,
    *,
    name: str = "",
    speeds: Mapping[str, float] | None = None,
    nets: Mapping[str, float] | None = None,
    backlog: int = 0,
    knowers: Collection[str] | None = None,
) -> list[Standing]:
    """Return every node's standing, best first, then those that are full, then those that can never serve.

    Args:
        nodes: as the ledger reports them.
        needs: what the job needs.
        strategy: the one that would choose.
        name: task name, to look up each node's learned speed.
        speeds: board -> learned factor; replaces what the rows say.
        nets: node -> cost of reaching it; unknown is 0.
        backlog: jobs of the same or a higher priority that wait in a shared queue these nodes serve.
        knowers: nodes that have loaded the task; None: whichever.
    """
    strangers = () if knowers is None else {n.name for n in nodes} - set(knowers)
    found = [
        _standing(n, needs, strategy, name, speeds or {}, (nets or {}).get(n.name, 0.0), backlog, n.name in strangers)
        for n in nodes
    ]
    found.sort(key=lambda s: (not s.eligible, s.score is None, s.score or 0.0, s.node))
    scores = sorted(s.score for s in found if s.score is not None)
    return [_ranked(s, scores, strategy) for s in found]


def _standing(
    row: NodeRow,
    needs: Needs,
    strategy: Strategy,
    name: str,
    speeds: Mapping[str, float],
    net: float,
    backlog: int,
    strange: bool,
) -> Standing:
    prior = row.weight / row.slots if row.slots else 0.0
    speed = speeds.get(row.board, row.speed.get(name, 1.0))
    never = f"does not know the task {name}" if strange else _never(row, needs)
    if never and row.state in ABSENT:
        never = _absence(row)  # that nobody is there says more than what it could not do
    busy = "" if never else _busy(row, needs, backlog)
    score = None
    if not never and not busy:
        rate = strategies.rates(row.slots, prior, row.trim)[strategy.name]
        score = strategy.score(row.used, row.slots, rate, speed=speed, net=net)
    return Standing(
        node=row.name,
        rank=None,
        eligible=not never,
        free=score is not None,
        score=score,
        why=never or busy,
        used=row.used,
        slots=row.slots,
        prior=prior,
        speed=speed,
        trim=row.trim,
        net=net,
        board=row.board,
    )


def _never(row: NodeRow, needs: Needs) -> str:
    missing = [label for label in needs.labels if label not in row.labels]
    if missing:
        return f"does not carry {', '.join(missing)}"
    if needs.gpu and "gpu" not in row.labels:
        return "has no GPU"
    if needs.slots > row.slots:
        return f"has {row.slots} slots, the job needs {needs.slots:g}"
    total = row.metrics.get("mem_total_bytes")
    if needs.mem_bytes and total is not None and needs.mem_bytes > total:
        return f"has {total / 1024**3:.1f} GiB of memory, the job needs {needs.mem_bytes / 1024**3:.1f}"
    return ""


def _busy(row: NodeRow, needs: Needs, backlog: int) -> str:
    if row.state != "up":
        return _absence(row)
    if row.used + needs.slots > row.slots:
        return f"is full ({row.used:g} of {row.slots} slots)"
    if backlog:
        return f"its free slots belong to the {backlog} jobs that wait in a shared queue"
    return ""


def _absence(row: NodeRow) -> str:
    age = "" if row.beat_age_s is None else f", last beat {row.beat_age_s:.1f} s ago"
    return f"is {row.state}{age}"


def _ranked(standing: Standing, scores: Sequence[float], strategy: Strategy) -> Standing:
    if standing.score is None:
        return standing
    rank = sorted(set(scores)).index(standing.score) + 1
    if strategy.mode == "stride":
        why = "takes its turn by the ledger's pass values"
    elif rank > 1:
        why = "costs more"
    elif scores.count(standing.score) > 1:
        why = "drawn by lot among equals"
    else:
        why = "costs least" if len(scores) > 1 else "no other node is free"
    facts = asdict(standing) | {"rank": rank, "why": why}
    return Standing(**facts)
