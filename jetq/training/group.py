"""Join the ranks in one process group, and leave it."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any

from jetq.errors import JetqError, UsageError
from jetq.training.backend import TRY_S, agreed
from jetq.training.seat import Seat, meeting, say, seat

BACKENDS = ("nccl", "gloo")
#: How long a rank waits for the others, at the start and in each exchange, until it fails (s). torch's own 30 min would
#: keep all nodes of a gang busy while one rank is stuck; much less fails where rank 0 alone validates or writes.
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Ranks:
    """This rank among all. As a context it leaves the process group at its end."""

    rank: int  # 0..world_size-1
    world_size: int
    local_rank: int  # among those on this machine
    local_world_size: int
    device: str  # cpu or cuda:N; one kind on all ranks
    backend: str  # nccl or gloo; the same on all ranks

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        finish()


class _Joined:
    """What this process holds."""

    ranks: Ranks | None = None
    store: Any = None  # rank 0 may serve it to the others as long as the group is there


def init(backend: str | None = None, *, timeout_s: float = TIMEOUT_S) -> Ranks:
    """Join all ranks in torch's default process group; a process without a launcher is a world of one.

    All ranks get one backend and one kind of device. A second call gives what the first one gave.

    Args:
        backend: ``nccl`` or ``gloo``; None: NCCL where it can sum one number over all ranks, else Gloo.
        timeout_s: how long a rank waits for the others, here and in each exchange, until it fails.

    Raises:
        UsageError: an unknown backend, a time that is none, or a launcher that does not say who this rank is.
        JetqError: the backend cannot be used, the others are not met, or a process group was made already.
    """
    if backend not in (None, *BACKENDS):
        raise UsageError(f"backend must be {' or '.join(BACKENDS)}, not {backend!r}; leave it out to have one found")
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise UsageError(f"timeout_s must be a number of seconds above 0, not {timeout_s!r}")
    if _Joined.ranks is not None:
        if backend not in (None, _Joined.ranks.backend):
            raise UsageError(f"the ranks have met by {_Joined.ranks.backend} already; name a backend in the first call")
        return _Joined.ranks
    import torch
    import torch.distributed as dist

    _check_torch(backend or "gloo")
    own = seat(os.environ)
    _share_cores(own)
    limit = timedelta(seconds=timeout_s)
    try:
        store, meet = _store(own, limit)
        choice = agreed(store, own, backend, meet, min(TRY_S, timeout_s / 2))
        if choice.device != "cpu":
            torch.cuda.set_device(choice.device)
        group = dist.PrefixStore("jetq/group", store)
        dist.init_process_group(choice.backend, store=group, rank=own.rank, world_size=own.world_size, timeout=limit)
    except RuntimeError as exc:  # torch's errors are
        where = f"{os.environ.get('MASTER_ADDR')} port {os.environ.get('MASTER_PORT')}"
        raise JetqError(f"rank {own.rank} cannot meet the others at {where}: {str(exc).partition(chr(10))[0]}") from exc
    _Joined.ranks, _Joined.store = Ranks(**asdict(own), device=choice.device, backend=choice.backend), store
    if own.rank == 0:
        count = "1 rank" if own.world_size == 1 else f"{own.world_size} ranks"
        why = choice.why and f" ({choice.why})"
        say(f"{count} on {choice.device.partition(':')[0]} by {choice.backend}{why}")
    return _Joined.ranks


def finish() -> None:
    """Leave the process group; harmless where there is none."""
    if _Joined.ranks is None:
        return
    import torch.distributed as dist

    _Joined.ranks = None
    if dist.is_initialized():
        dist.destroy_process_group()
    _Joined.store = None


def _check_torch(backend: str) -> None:
    import torch.distributed as dist

    if not dist.is_available():
        raise JetqError(
            "this PyTorch was built without torch.distributed (some wheels for boards are); install another"
        )
    if dist.is_initialized():
        raise JetqError("a process group is there already; leave init_process_group out: training.init() makes it")
    if not dist.is_backend_available(backend):
        raise JetqError(f"this PyTorch was built without {backend}; install another, or name another backend")


def _share_cores(own: Seat) -> None:
    """Give each rank of a machine its part of the cores; torchrun does so too (one each), mpirun does not."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // own.local_world_size))


def _store(own: Seat, limit: timedelta) -> tuple[Any, tuple[str, str]]:
    """Return the store through which the ranks find each other, and where it is."""
    import torch.distributed as dist

    if own.world_size == 1:
        return dist.HashStore(), ("", "")
    meet = meeting(own, os.environ)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = meet
    return next(iter(dist.rendezvous("env://", own.rank, own.world_size, timeout=limit)))[0], meet
