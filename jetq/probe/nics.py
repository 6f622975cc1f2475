"""The addresses at which peers might reach this machine. Which of them they really do, only they can tell (``ear``)."""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path

import psutil

from jetq.addresses import address_towards
from jetq.model.nic import Nic

#: More candidates are not said: privacy extensions and containers can give a machine dozens of addresses.
MOST = 8
#: Networks inside one machine: they have the same address on every board (docker0 172.17.0.1, l4tbr0 192.168.55.1).
_INSIDE = re.compile(r"(docker|l4tbr|virbr|lxcbr|lxdbr|podman|cni|usb|rndis)\d+|cni-podman\d+|br-[0-9a-f]{12}|dummy.*")
#: Bridges, tunnels and other software: slower than what lies below, or inside one machine.
_SOFTWARE = re.compile(r"(br-|veth|tun|tap|wg|zt|tailscale|flannel|cali|vxlan|macvtap|kube-).*")
_WIRELESS = re.compile(r"(wl|ww).*")

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def candidates(towards: str = "", *, root: Path = Path("/")) -> tuple[Nic, ...]:
    """Return addresses of this machine that peers might reach it at, best first, no loopback or link-local ones.

    IPv4 comes before IPv6. Of each: the one that faces the broker, then wired, wireless and software interfaces. What
    is usually a network inside one machine (docker0, l4tbr0 ...) comes last, not never. An interface's first address
    comes before its others: Gloo listens there.

    Args:
        towards: the broker's URL.
        root: holds sys.
    """
    facing = _facing(towards)
    found: list[tuple[tuple[bool | int, ...], Nic]] = []
    of_interface: dict[tuple[str, int], int] = {}
    states = psutil.net_if_stats()
    for label, entries in psutil.net_if_addrs().items():
        name = label.partition(":")[0]  # an alias, eth0:1
        if name not in states or not states[name].isup:
            continue
        first = next((e for e in entries if e.family in _FAMILIES), None) if label == name else None
        for entry in entries:
            address = _address(entry.family, entry.address)
            if address is None:
                continue
            turn = of_interface[name, address.version] = of_interface.get((name, address.version), -1) + 1
            faces = str(address) == facing
            rank = (address.version, _kind(name, faces=faces, root=root), not faces, turn, len(found))
            found.append((rank, Nic(name, str(address), _network(address, entry.netmask), entry is first)))
    return tuple(nic for _rank, nic in sorted(found, key=lambda pair: pair[0]))[:MOST]


def _kind(name: str, *, faces: bool, root: Path) -> int:
    if _INSIDE.fullmatch(name):
        return 4
    if faces:
        return 0
    if _SOFTWARE.fullmatch(name):
        return 3
    wireless = _WIRELESS.fullmatch(name) or (root / "sys/class/net" / name / "wireless").exists()
    return 2 if wireless else 1


def _facing(url: str) -> str:
    try:
        return address_towards(url) if url else ""
    except (OSError, ValueError):  # its name is not known now, or there is no route
        return ""


def _address(family: int, text: str) -> _Address | None:
    if family not in _FAMILIES:
        return None
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    inside = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    return None if inside or getattr(address, "is_site_local", False) else address


def _network(address: _Address, mask: str | None) -> str:
    """Return the address's network; without a mask it is alone in its own."""
    bits: int = address.max_prefixlen
    if mask:
        try:
            bits = int(ipaddress.ip_address(mask)).bit_count()
        except ValueError:
            bits = address.max_prefixlen
    return str(ipaddress.ip_network((address, bits), strict=False))
