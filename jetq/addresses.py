"""Addresses of this machine, as others see them."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit


def address_towards(broker_url: str) -> str:
    """Return this machine's address on the way to the broker: the one under which the cluster's nodes reach it.

    ``127.0.0.1`` for a broker on a unix socket. Nothing is sent.
    """
    parts = urlsplit(broker_url.split(";", maxsplit=1)[0])
    if "unix" in parts.scheme or "socket" in parts.scheme or not parts.netloc:
        return "127.0.0.1"
    host = parts.hostname or "127.0.0.1"
    for family, kind, protocol, _, address in socket.getaddrinfo(host, parts.port or 6379, type=socket.SOCK_DGRAM):
        with socket.socket(family, kind, protocol) as probe:
            if probe.connect_ex(address) == 0:
                return str(probe.getsockname()[0])
    return "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
