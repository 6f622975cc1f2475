"""The broker: the server that `jetq up` starts, and whether any server can serve jetq."""

from jetq.broker.fit import ServerFacts, check, shown
from jetq.broker.folder import find, seen
from jetq.broker.server import EmbeddedServer, Listen

__all__ = ["EmbeddedServer", "Listen", "ServerFacts", "check", "find", "seen", "shown"]
