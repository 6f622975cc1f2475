"""Ports that are free on this machine, where the kernel gives none away by itself."""

from __future__ import annotations

import random
import socket
from collections.abc import Container
from pathlib import Path

from jetq.errors import JetqError

#: Below what kernels give to outgoing connections (Linux: 32768-60999), above what services are found at.
LOW, HIGH = 20_000, 29_999
#: Connections that wait to be accepted: the head of a large gang is asked by all at once.
_BACKLOG = 1024


def free_port(taken: Container[int] = (), *, low: int = LOW, high: int = HIGH, root: Path = Path("/")) -> int:
    """Return a port that nothing uses on any address of this machine.

    Args:
        taken: ports that somebody has been promised.
        low, high: the range, both included.

    Raises:
        JetqError: none is free.
    """
    with listener(taken, low=low, high=high, root=root) as found:
        return int(found.getsockname()[1])


def listener(taken: Container[int] = (), *, low: int = LOW, high: int = HIGH, root: Path = Path("/")) -> socket.socket:
    """Return a socket that listens on such a port, on all addresses, IPv6 ones too where the machine has any.

    Raises:
        JetqError: none is free.
    """
    for port in _order(low, high, root):
        if port not in taken:
            try:
                return _listen(port)
            except OSError:
                continue
    raise JetqError(f"no port from {low} to {high} is free on this machine; see `ss -tln` for who has them")


def is_free(port: int) -> bool:
    """Tell whether nothing uses the port on any address of this machine."""
    try:
        _listen(port).close()
    except OSError:
        return False
    return True


def _listen(port: int) -> socket.socket:
    """Listen on all addresses. No SO_REUSEADDR: a port that a program has just left may fail it (TIME_WAIT)."""
    try:
        found = socket.socket(socket.AF_INET6)
    except OSError:  # a kernel without IPv6
        return _bound(socket.socket(socket.AF_INET), "0.0.0.0", port)
    found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return _bound(found, "::", port)


def _bound(found: socket.socket, address: str, port: int) -> socket.socket:
    try:
        found.bind((address, port))
        found.listen(_BACKLOG)
    except OSError:
        found.close()
        raise
    return found


def _order(low: int, high: int, root: Path) -> list[int]:
    """Return the range in random order; ports that the kernel may give away come last."""
    ports = random.sample(range(low, high + 1), high + 1 - low)
    try:
        text = (root / "proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        given = range(int(text[0]), int(text[1]) + 1)
    except (OSError, ValueError, IndexError):
        return ports
    return sorted(ports, key=given.__contains__)
