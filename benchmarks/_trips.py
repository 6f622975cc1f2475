"""Round trips on a server, counted on the wire with MONITOR."""

from __future__ import annotations

import time
from collections.abc import Callable

from redis import Redis

#: Commands of the counting itself.
_OWN = frozenset({"LLEN", "ECHO"})
_MARK = "jetq-counted"


def count(client: Redis, work: Callable[[], None], done: Callable[[], bool]) -> tuple[int, float]:
    """Return how many round trips all clients made while ``work`` ran and until ``done``, and how long that took (s).

    Commands inside a script travel with it; so does MULTI ... EXEC, which clients send in one piece.
    """
    begin_s = time.monotonic()
    with client.monitor() as monitor:
        work()
        while not done():
            time.sleep(0.01)
        took_s = time.monotonic() - begin_s
        client.echo(_MARK)
        trips, inside = 0, set()
        while True:
            seen = monitor.next_command()
            name = seen["command"].split(" ", 1)[0].upper()
            if name == "ECHO" and _MARK in seen["command"]:
                return trips, took_s
            sender = f"{seen['client_address']}:{seen['client_port']}"
            if name == "MULTI":
                inside.add(sender)
            elif name == "EXEC":
                inside.discard(sender)
            if seen["client_type"] != "lua" and name not in _OWN and sender not in inside:
                trips += 1
