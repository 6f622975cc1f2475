"""The broker: the server that `jetq up` starts, and whether any server can serve jetq."""

from jetq.broker.fit import ServerFacts, check
from jetq.broker.folder import find, seen
from jetq.broker.server import EmbeddedServer, Listen
from jetq.model.address import shown

__all__ = ["EmbeddedServer", "Listen", "ServerFacts", "check", "find", "seen", "shown"]
