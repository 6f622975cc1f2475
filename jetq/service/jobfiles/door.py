"""Where a node's HTTP port is: what the ledger keeps of it."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """Where a node's HTTP port is, and what opens it: a field of the node's row in the ledger."""

    url: str  # http://ADDRESS:PORT
    token: str
    place: str  # which loopback it is, where the address is one (``process.place``)

    def as_text(self) -> str:
        """Return it as the ledger keeps it."""
        return json.dumps({"url": self.url, "token": self.token, "place": self.place})

    @classmethod
    def parse(cls, text: str) -> Door:
        """Read what the ledger keeps."""
        return cls(**json.loads(text))
