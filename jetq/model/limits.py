"""How much of an error the ledger keeps, and how long who waits for work outlives a broker that is away."""

from __future__ import annotations

#: An error, or a reason, is kept up to this length (bytes); the node's log has the whole of it.
ERROR_BYTES = 4096
#: Who waits for a job, or follows it, outlives a broker that is away for so long (s): the work goes on meanwhile.
BROKER_PATIENCE_S = 30.0


def cut(text: str) -> str:
    """Return an error as the ledger keeps it: whole, or its beginning with a mark that says how long it was."""
    raw = text.encode(errors="replace")
    if len(raw) <= ERROR_BYTES:
        return raw.decode()
    return f"{raw[:ERROR_BYTES].decode(errors='ignore')} … (cut: it has {len(raw)} bytes)"
