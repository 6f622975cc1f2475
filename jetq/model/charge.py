"""What a node is charged with when it gets a stream, and how that ended. Crosses the wire as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jetq.model.credentials import Secret
from jetq.model.stream import Secrets, StreamSpec

#: The task that runs a seat of a stream.
SEAT_TASK = "stream.run"
#: over: a file came to its end. failed: no other try will help, on no node. refused: not on this node. stopped: as it
#: was asked to.
How = Literal["over", "failed", "refused", "stopped"]


@dataclass(frozen=True, slots=True)
class Charge:
    """What a seat finds out about its stream when it begins, and when that has been changed."""

    stream_id: str
    number: int  # of the seat: 1 is the first that the stream had
    version: int  # of the spec
    spec: StreamSpec
    secrets: Secrets
    board: str  # of the node


@dataclass(frozen=True, slots=True)
class End:
    """How a seat ended: the result of its task."""

    how: How
    why: str = ""
    traceback: str = ""  # of an analyzer that raised

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def parse(cls, text: str) -> End:
        """Read what the ledger keeps."""
        said = json.loads(text)
        return cls(said["how"], str(said["why"]), str(said["traceback"]))


def secrets_as_text(secrets: Secrets) -> str:
    """Return secrets as the ledger keeps them, "" for none."""
    return json.dumps({shown: secret.as_json() for shown, secret in secrets.items()}, sort_keys=True) if secrets else ""


def secrets_of(text: str) -> Secrets:
    """Read what ``secrets_as_text`` gave."""
    return {shown: Secret.from_json(plain) for shown, plain in json.loads(text or "{}").items()}
