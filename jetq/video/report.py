"""What came of a study: per file, per node, in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk's work, as the ledger and the node tell it."""

    node: str
    n_frames: int  # of the chunk itself
    decoded: int  # warm-up and lead-in included
    took_s: float  # in the task's body
    started_s: float  # Unix seconds, the broker's clock
    finished_s: float


@dataclass(frozen=True, slots=True)
class FileReport:
    """What came of one run."""

    name: str
    file: str
    width: int
    height: int
    fps: float
    frames: int
    duration_s: float
    chunks: int
    lost_frames: int  # packets that gave no frame: the file is damaged
    hits: int  # frames with at least one box
    peak_score: float
    peak_time_s: float | None
    nodes: dict[str, int]  # node -> chunks
    outputs: list[str]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node did."""

    node: str
    chunks: int
    frames: int
    busy_s: float  # sum over its slots
    fps: float  # frames a second from its first start to its last end
    fps_per_slot: float  # frames a second of work


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a study."""

    analyzer: str
    frames: int
    chunks: int
    wall_s: float
    fps: float
    busy_s: float  # in task bodies, over all slots
    sent_bytes: int  # of input, by HTTP
    files: list[FileReport] = field(default_factory=list)
    nodes: list[NodeReport] = field(default_factory=list)
    sheet: str | None = None
    summary: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self)


def by_node(pieces: Sequence[Piece]) -> list[NodeReport]:
    """Add up what each node did, by name."""
    out: list[NodeReport] = []
    for node in sorted({piece.node for piece in pieces}):
        own = [piece for piece in pieces if piece.node == node]
        frames = sum(piece.n_frames for piece in own)
        busy_s = sum(piece.took_s for piece in own)
        span_s = max(piece.finished_s for piece in own) - min(piece.started_s for piece in own)
        out.append(
            NodeReport(
                node=node,
                chunks=len(own),
                frames=frames,
                busy_s=round(busy_s, 3),
                fps=rate(frames, span_s),
                fps_per_slot=rate(frames, busy_s),
            )
        )
    return out


def rate(count: int, span_s: float) -> float:
    """Return how many a second; 0 where no time passed."""
    return round(count / span_s, 1) if span_s > 0 else 0.0
