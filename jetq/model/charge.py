"""What a node is charged with when it gets a stream, and how that ended. Crosses the wire as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jetq.model.credentials import Secret, hides
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


def secrets_as_text(spec: StreamSpec, secrets: Secrets) -> dict[str, str]:
    """Return the credentials of each address of a stream that hides some, as the ledger keeps them; "": not given."""
    webhooks = [sink.partition(":")[2] for sink in spec.sinks if sink.startswith("webhook:")]
    hiding = dict.fromkeys(shown for shown in (spec.uri, *webhooks) if hides(shown))
    return {shown: json.dumps(secrets[shown].as_json(), sort_keys=True) if shown in secrets else "" for shown in hiding}


def secrets_of(kept: Mapping[str, str]) -> Secrets:
    """Read what the ledger keeps."""
    return {shown: Secret.from_json(json.loads(plain)) for shown, plain in kept.items()}
