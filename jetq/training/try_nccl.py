"""Sum one number over all ranks by a backend, in a process of its own: NCCL that does not work may hang or abort.

Run as ``python try_nccl.py BACKEND HOST PORT RANK WORLD_SIZE DEVICE WITHIN_S`` by ``jetq.training.backend``. It imports
nothing of jetq. Ends with 0 if the sum is right; else the last line of its output says why not.
"""

import os
import sys
from datetime import timedelta

if __name__ == "__main__":
    sys.path[0:1] = []  # our own folder: its modules are no top-level ones
    import torch
    import torch.distributed as dist

    backend, host, port, rank, world_size, device, within_s = sys.argv[1:]
    limit = timedelta(seconds=float(within_s))
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    store = dist.PrefixStore("jetq/try", dist.TCPStore(host, int(port), None, False, limit))
    dist.init_process_group(backend, store=store, rank=int(rank), world_size=int(world_size), timeout=limit)
    one = torch.ones(1, device=device)
    dist.all_reduce(one)
    if one.item() != int(world_size):
        sys.exit(f"{world_size} ones were summed up to {one.item():g}")
    sys.stdout.flush()
    os._exit(0)  # nothing that is left could say more; taking the group down might hang
