"""Compute pi on all ranks with mpi4py: each takes every so many-th strip below the curve 4 / (1 + x²), rank 0 sums up.

jetq gang --nodes 4 --launcher mpirun --workdir examples/mpi -- python pi.py
"""

from __future__ import annotations

import argparse
import math

from mpi4py import MPI


def main() -> None:
    """Print pi, how far it is off, and how long it took."""
    parser = argparse.ArgumentParser(description="Compute pi on all ranks.")
    parser.add_argument("--strips", type=int, default=2_000_000, help="in all, 1 or more (2000000)")
    strips = parser.parse_args().strips
    if strips < 1:
        parser.error("--strips must be 1 or more")
    world = MPI.COMM_WORLD
    world.Barrier()
    started_s = MPI.Wtime()
    pi = world.reduce(area(world.rank, world.size, strips), MPI.SUM, root=0)
    took_s = MPI.Wtime() - started_s
    names = world.gather(MPI.Get_processor_name(), root=0)
    if world.rank == 0:
        on = ", ".join(sorted(set(names)))
        print(f"pi {pi:.12f} off by {abs(pi - math.pi):.1e}, {world.size} ranks on {on}, {took_s:.2f} s")


def area(rank: int, size: int, strips: int) -> float:
    """Return this rank's share of the area."""
    width = 1 / strips
    return width * math.fsum(4 / (1 + ((strip + 0.5) * width) ** 2) for strip in range(rank, strips, size))


if __name__ == "__main__":
    main()
