"""An address of a machine, as its peers may reach it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Nic:
    """One address of one interface."""

    interface: str  # the kernel's name: eth0, wlan0 …
    address: str  # IP literal
    network: str  # CIDR by its netmask: 10.0.0.0/24
    first: bool = True  # of its interface, IPv4 ones before IPv6: Gloo and NCCL, told the interface, listen there

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)
