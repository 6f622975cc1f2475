"""Where a node finds an input file: in the shared folder, else at the submitter's file server."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jetq.config import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """One input file as a node sees it. No path is ever sent bare: the node may lie on another machine."""

    name: str  # for messages
    url: str  # at the submitter's file server
    size_bytes: int
    shared: str | None = None  # relative to the folder that all nodes mount

    def as_json(self) -> dict[str, Any]:
        """Return the place as plain values."""
        return asdict(self)

    def locate(self) -> str:
        """Return the path in this node's shared folder if the file is there, else the URL."""
        root = Settings.from_environ().shared
        if root is None or self.shared is None:
            return self.url
        path = (root / self.shared).resolve()
        if path.is_relative_to(root.resolve()) and path.is_file() and path.stat().st_size == self.size_bytes:
            return str(path)
        return self.url


def shared_name(path: Path, root: Path | None) -> str | None:
    """Return ``path`` relative to the shared folder, or ``None`` if it lies outside."""
    if root is None or not path.resolve().is_relative_to(root.resolve()):
        return None
    return str(path.resolve().relative_to(root.resolve()))
