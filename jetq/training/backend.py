"""How the ranks agree: one kind of device and one backend for all, found by trying."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetq import process
from jetq.errors import JetqError
from jetq.training.seat import Seat

#: How long NCCL may take to sum one number (s). Most of it is the import of torch and the first use of a GPU, which
#: take a board some 10 s; one that hangs costs this once, at the start.
TRY_S = 45.0
_TRY = Path(__file__).with_name("try_nccl.py")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rank computes on, and how it speaks with the others."""

    device: str  # cpu or cuda:N; one kind on all ranks
    backend: str  # the same on all ranks
    why: str  # it is no better one; "": it is the best


def agreed(store: Any, own: Seat, backend: str | None, meet: tuple[str, str], within_s: float = TRY_S) -> Choice:
    """Choose with the other ranks.

    Args:
        store: of torch, shared by all ranks; each says what it lacks, and rank 0 decides.
        own: this rank.
        backend: one that was asked for; None: NCCL where it works on all ranks, else Gloo.
        meet: address and port of the store.
        within_s: for trying NCCL.

    Raises:
        JetqError: NCCL was asked for, and a rank cannot use it.
    """
    device, lack = _gpu(own.local_rank)
    no_gpu = _ask(store, own, "gpu", lack)
    device = "cpu" if no_gpu else device
    against = no_gpu or _ask(store, own, "nccl", _nccl_lacks())
    if backend == "nccl" and against:
        raise JetqError(f"NCCL cannot be used: {against}; leave the backend out, or name gloo")
    if backend is not None or own.world_size == 1:
        return Choice(device, backend or "gloo", no_gpu)
    if not against:
        against = _ask(store, own, "try", try_backend("nccl", own, device, meet, within_s))
    return Choice(device, "gloo" if against else "nccl", against)


def try_backend(backend: str, own: Seat, device: str, meet: tuple[str, str], within_s: float) -> str:
    """Sum one number over all ranks in a process of its own. Returns "" if that went well, else why not."""
    words = (str(own.rank), str(own.world_size), device, str(within_s))
    with tempfile.TemporaryFile() as out:
        child = process.spawn([sys.executable, str(_TRY), backend, *meet, *words], stdout=out, stderr=out)
        try:
            code = child.wait(within_s)
        finally:
            child.kill()
        if code == 0:
            return ""
        out.seek(0)
        lines = [line.strip() for line in out.read().decode(errors="replace").splitlines() if line.strip()]
    if code is None:
        return f"{backend} did not sum one number within {within_s:g} s"
    return f"{backend} failed: {lines[-1] if lines else f'exit code {code}':.300}"


def _ask(store: Any, own: Seat, what: str, why: str) -> str:
    """Tell the others why this rank cannot ("": it can). Returns the first rank's reason, the same on all."""
    store.set(f"jetq/{what}/{own.rank}", json.dumps(why))
    if own.rank == 0:
        found = ((rank, json.loads(store.get(f"jetq/{what}/{rank}"))) for rank in range(own.world_size))
        first = next((f"rank {rank}: {why}" for rank, why in found if why), "")
        store.set(f"jetq/{what}", json.dumps(first))
    return str(json.loads(store.get(f"jetq/{what}")))


def _gpu(local_rank: int) -> tuple[str, str]:
    """Return the device of this rank, and why it is no GPU. A torch for other boards sees one and fails at its use."""
    import torch

    if not torch.cuda.is_available():
        return "cpu", "no GPU that this PyTorch can use"
    device = f"cuda:{local_rank % torch.cuda.device_count()}"
    try:
        ones = torch.ones(2, 2, device=device)
        (ones @ ones).sum().item()
    except RuntimeError as exc:
        return "cpu", f"{device} computes nothing with this PyTorch: {str(exc).partition(chr(10))[0]}"
    return device, ""


def _nccl_lacks() -> str:
    import torch.distributed as dist

    return "" if dist.is_nccl_available() else "this PyTorch was built without NCCL"
