"""Checkpoints that are whole or not there, and the attempt that reads them."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import pickle
from pathlib import Path
from typing import Any

from jetq.errors import JetqError, UsageError
from jetq.training.seat import seat, whole

#: A checkpoint goes from rank 0 to the others in pieces of so many bytes: small against a GPU's memory.
PIECE_BYTES = 16 * 1024**2
#: Its usual name.
NAME = "checkpoint.pt"


def attempt() -> int:
    """Return which attempt of its gang this is; 1 is the first, and the only one outside of a gang."""
    return whole(os.environ, "JETQ_ATTEMPT", 1) if "JETQ_ATTEMPT" in os.environ else 1


def checkpoint_dir() -> Path:
    """Return the folder that outlives the attempt, made if need be; outside of a gang: ``checkpoints`` right here."""
    folder = Path(os.environ.get("JETQ_CKPT_DIR") or "checkpoints").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise JetqError(f"the folder for checkpoints cannot be made: {exc}") from exc
    return folder


def save(state: object, name: str = NAME) -> None:
    """Write a checkpoint; a kill or a power cut at any moment leaves the one before, or this one, and nothing between.

    Every rank may call it: rank 0 writes.

    Args:
        state: tensors and plain values (``state_dict()``), as ``torch.save`` takes them.
        name: of the file in ``checkpoint_dir()``.

    Raises:
        JetqError: it cannot be written; the one before is still there.
    """
    import torch

    path = _path(name)
    if seat(os.environ).rank != 0:
        return
    part = path.with_name(f".{name}.{attempt()}-{os.getpid()}.part")
    try:
        for left in path.parent.glob(f".{glob.escape(name)}.*.part"):  # by an attempt that was killed
            left.unlink(missing_ok=True)
        with part.open("wb") as out:
            torch.save(state, out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except (OSError, RuntimeError) as exc:  # torch hides a full disk behind the second
        why = exc.__context__ if isinstance(exc.__context__, OSError) else exc
        raise JetqError(f"checkpoint {path} was not written: {why}") from exc
    finally:
        part.unlink(missing_ok=True)
    _sync(path.parent)


def load(name: str = NAME) -> Any:
    """Return the checkpoint that rank 0 finds, with its tensors on the CPU; None: there is none yet.

    After ``init()`` every rank calls it and gets the same: the other nodes need not have the file.

    Raises:
        JetqError: the file is no checkpoint.
    """
    import torch

    path = _path(name)
    own = path.read_bytes() if seat(os.environ).rank == 0 and path.exists() else b""
    content = _from_rank_0(own)
    if not content:
        return None
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as exc:
        why = str(exc).partition("\n")[0]
        raise JetqError(f"{path} of rank 0 is no checkpoint of tensors and plain values; move it away: {why}") from exc


def _path(name: str) -> Path:
    if name in ("", "..") or name != Path(name).name:
        raise UsageError(f"a checkpoint's name is that of a file, without folders, not {name!r}")
    return checkpoint_dir() / name


def _sync(folder: Path) -> None:
    """Let the names in a folder outlive a power cut, where its file system can do that."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def _from_rank_0(content: bytes) -> bytes | bytearray:
    """Return rank 0's bytes on every rank; ``broadcast_object_list`` would need NumPy, and twice the memory."""
    import torch
    import torch.distributed as dist

    if not dist.is_initialized() or dist.get_world_size() == 1:
        return content
    device = f"cuda:{torch.cuda.current_device()}" if dist.get_backend() == "nccl" else "cpu"
    size = torch.tensor([len(content)], dtype=torch.int64, device=device)
    dist.broadcast(size, 0)
    all_of_it = bytearray(content or int(size.item()))
    if not all_of_it:
        return all_of_it
    flat = torch.frombuffer(all_of_it, dtype=torch.uint8)
    for piece in flat.split(PIECE_BYTES):
        there = piece.to(device)
        dist.broadcast(there, 0)
        piece.copy_(there)
    return all_of_it
