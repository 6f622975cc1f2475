"""The role of a probe: what a node is, and how it is right now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jetq.model.beat import Metrics


@dataclass(frozen=True, slots=True)
class Machine:
    """What stays true of the hardware until it is switched off."""

    identity: str  # board serial, else MAC
    board: str  # hardware model, "pc" where unknown
    arch: str  # as uname has it: aarch64, x86_64 …
    cores: int  # online, and open to this process
    mem_bytes: int  # RAM, or less where a container has a limit
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the node."""

    metrics: Metrics
    own_cpu: float | None = None  # 0..1 of the machine, used by jetq's own processes; None: unknown


class Probe(Protocol):
    """Reads one machine. ``read`` is called each second by one thread, ``refresh`` now and then by another."""

    def machine(self) -> Machine:
        """Return what the machine is."""
        ...

    def read(self) -> Reading:
        """Return how it is right now, without waiting for a device or a disk."""
        ...

    def refresh(self) -> None:
        """Read what may take long (disk, sensors, own processes); ``read`` shows it from then on."""
        ...
