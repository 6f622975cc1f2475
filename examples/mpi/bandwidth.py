"""Measure the allreduce of all ranks with mpi4py: how fast gradients of a size can be summed up over this network.

jetq gang --nodes 4 --launcher mpirun --workdir examples/mpi -- python bandwidth.py
"""

from __future__ import annotations

import argparse
from array import array

from mpi4py import MPI

#: From a few weights to a small model (bytes of float32).
SIZES = tuple(4**n * 1024 for n in range(8))


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description="Measure the allreduce bandwidth over all ranks.")
    parser.add_argument("--repeat", type=int, default=10, help="exchanges of each size, 1 or more (10)")
    parser.add_argument("--most", type=int, default=SIZES[-1], help=f"largest size in bytes, {SIZES[0]} or more")
    asked = parser.parse_args()
    if asked.repeat < 1 or asked.most < SIZES[0]:
        parser.error(f"--repeat must be 1 or more, and --most {SIZES[0]} or more")
    world = MPI.COMM_WORLD
    if world.rank == 0:
        print(f"{world.size} ranks\n{'bytes':>10} {'ms':>9} {'MB/s':>9}", flush=True)
    for size in (size for size in SIZES if size <= asked.most):
        took_s = exchange(world, size, asked.repeat)
        if world.rank == 0:
            print(f"{size:>10} {took_s * 1e3:>9.3f} {size / took_s / 1e6:>9.1f}", flush=True)


def exchange(world: MPI.Comm, size: int, repeat: int) -> float:
    """Return the seconds that one allreduce takes the slowest rank, on average."""
    mine, summed = array("f", bytes(size)), array("f", bytes(size))
    mine[0] = 1.0
    world.Allreduce([mine, MPI.FLOAT], [summed, MPI.FLOAT])  # connections are made by the first one
    if summed[0] != world.size:
        raise SystemExit(f"{world.size} ones were summed up to {summed[0]:g}")
    world.Barrier()
    started_s = MPI.Wtime()
    for _ in range(repeat):
        world.Allreduce([mine, MPI.FLOAT], [summed, MPI.FLOAT])
    return float(world.allreduce(MPI.Wtime() - started_s, MPI.MAX)) / repeat


if __name__ == "__main__":
    main()
