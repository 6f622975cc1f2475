"""How much of an error the ledger keeps."""

from __future__ import annotations

#: An error, or a reason, is kept up to this length (bytes); the node's log has the whole of it.
ERROR_BYTES = 4096


def cut(text: str) -> str:
    """Return an error as the ledger keeps it: whole, or its beginning with a mark that says how long it was."""
    raw = text.encode(errors="replace")
    if len(raw) <= ERROR_BYTES:
        return raw.decode()
    return f"{raw[:ERROR_BYTES].decode(errors='ignore')} … (cut: it has {len(raw)} bytes)"
