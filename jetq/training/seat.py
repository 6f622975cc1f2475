"""Which rank this process is, by what its launcher says. Pure."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from jetq.errors import UsageError

#: What torchrun tells a rank, and what Open MPI calls it.
_NAMES = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
#: Where ranks of a bare mpirun may meet: above the ports of services, below those that the kernel gives away.
_FIRST_PORT, _PORTS = 20000, 10000


@dataclass(frozen=True, slots=True)
class Seat:
    """One rank among all."""

    rank: int = 0  # 0..world_size-1
    world_size: int = 1
    local_rank: int = 0  # among those on this machine
    local_world_size: int = 1


def seat(environ: Mapping[str, str]) -> Seat:
    """Return which rank this process is; without a launcher, the only one.

    Raises:
        UsageError: a launcher left something out, or what it says does not fit together.
    """
    names = dict(zip(_NAMES, _NAMES if "RANK" in environ else _NAMES.values(), strict=True))
    if names["RANK"] not in environ:
        return Seat()
    rank, world_size = whole(environ, names["RANK"], 0), whole(environ, names["WORLD_SIZE"], 1)
    local_rank, local_size = whole(environ, names["LOCAL_RANK"], 0), whole(environ, names["LOCAL_WORLD_SIZE"], 1)
    if rank >= world_size or local_rank >= local_size or local_size > world_size:
        raise UsageError(
            f"rank {rank} of {world_size}, {local_rank} of {local_size} on this machine: that does not fit together; "
            f"if no launcher runs, unset {', '.join(names.values())}"
        )
    return Seat(rank, world_size, local_rank, local_size)


def meeting(own: Seat, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the address and the port at which the ranks meet: rank 0's.

    A bare mpirun names neither. On one machine the port follows from the name of its job.

    Raises:
        UsageError: the ranks are on several machines, and nobody says where they meet.
    """
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return environ["MASTER_ADDR"], str(whole(environ, "MASTER_PORT", 1))
    job = environ.get("PMIX_NAMESPACE")
    if job is None or own.local_world_size != own.world_size:
        raise UsageError(
            "MASTER_ADDR or MASTER_PORT is not set, so the ranks cannot meet; start them by `jetq gang`, or say where: "
            "mpirun -x MASTER_ADDR=ADDRESS_OF_RANK_0 -x MASTER_PORT=29500 ..."
        )
    return "127.0.0.1", str(_FIRST_PORT + zlib.crc32(job.encode()) % _PORTS)


def whole(environ: Mapping[str, str], name: str, least: int) -> int:
    """Return the whole number that a variable holds.

    Raises:
        UsageError: it is not set, holds something else, or less than ``least``.
    """
    text = environ.get(name)
    if text is None or not text.isdecimal() or int(text) < least:
        said = "is not set" if text is None else f"is {text!r}"
        raise UsageError(f"{name} {said}, but a whole number from {least} on is needed; the launcher sets it")
    return int(text)


def say(text: str) -> None:
    """Tell whoever reads the output."""
    print(f"jetq.training: {text}", file=sys.stderr, flush=True)
