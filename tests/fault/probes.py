"""What fault tests ask of processes, and do to connections."""

from __future__ import annotations

from pathlib import Path

from jetq import process


def alive(pid: int) -> bool:
    """Tell whether a process runs."""
    return process.born(pid) is not None


def pids(note: Path, runs: int = 1) -> list[int]:
    """Return the pids that so many runs of a body have left in a file, a line each; empty while there are fewer."""
    lines = note.read_text().splitlines() if note.exists() else []
    return [int(word) for line in lines for word in line.split()] if len(lines) >= runs else []


def cut_all(broker) -> None:
    """Close every connection but the one that asks."""
    with broker.client() as client:
        for kind in ("normal", "pubsub"):
            client.execute_command("CLIENT", "KILL", "SKIPME", "yes", "TYPE", kind)
