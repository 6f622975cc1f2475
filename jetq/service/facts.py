"""What a node is called and what it offers, from settings and hardware. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from jetq import ids
from jetq._version import __version__
from jetq.config import Settings
from jetq.errors import NameTaken, UsageError
from jetq.model.beat import NodeFacts, NodeRow
from jetq.model.needs import GPU_LABEL, ONNX_LABEL, VIDEO_LABEL
from jetq.probe.base import Machine

#: RAM that stays with the system and jetq itself (bytes).
RESERVED_BYTES = 2 * 1024**3
#: RAM that one slot is reckoned with (bytes).
SLOT_BYTES = 512 * 1024**2
#: Labels that a node carries by itself.
IMPLICIT = ("arch", "board", "node")


def has_video() -> bool:
    """Tell whether this machine has what video work needs (the ``video`` extra)."""
    return all(find_spec(name) for name in ("av", "cv2", "numpy"))


def default_slots(cores: int, mem_bytes: int) -> int:
    """Return min(online cores, (RAM - 2 GiB) / 512 MiB), at least 1."""
    return max(1, min(cores, (mem_bytes - RESERVED_BYTES) // SLOT_BYTES))


def slug(text: str) -> str:
    """Return ``text`` as a label's value: a board ``NVIDIA Jetson Orin NX`` is ``nvidia-jetson-orin-nx``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "unknown"


def mark_key(*parts: str) -> str:
    """Return what marks all processes of one node on this machine, from whatever tells nodes here apart."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def own_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels that a person gave, checked.

    Raises:
        UsageError: no label, or one that the node carries by itself.
    """
    given = tuple(sorted({ids.label(text) for text in labels}))
    for text in given:
        if text.partition("=")[0] in IMPLICIT:
            raise UsageError(f"label {text!r}: every node carries {', '.join(f'{k}=' for k in IMPLICIT)} by itself")
    return given


def node_facts(settings: Settings, machine: Machine, *, name: str, epoch: str, address: str = "") -> NodeFacts:
    """Return what stays true of a node for one epoch. ``address``: at which other nodes reach this machine."""
    board = slug(settings.board or machine.board)
    implicit = [f"arch={slug(machine.arch).replace('x86-64', 'x86_64')}", f"board={board}", f"node={name}"]
    if machine.gpus:
        implicit.append(GPU_LABEL)
    if has_video():
        implicit += [VIDEO_LABEL, *([ONNX_LABEL] if find_spec("onnxruntime") else [])]
    return NodeFacts(
        name=name,
        identity=machine.identity,
        epoch=epoch,
        slots=settings.slots or default_slots(machine.cores, machine.mem_bytes),
        gpu=machine.gpus,
        mem_bytes=max(machine.mem_bytes - RESERVED_BYTES, machine.mem_bytes // 2),
        board=board,
        labels=tuple(sorted({*own_labels(settings.labels), *implicit})),
        version=__version__,
        address=address,
        cores=machine.cores,
        decode=settings.decode,
    )


def choose_name(wanted: str | None, host: str, machine: Machine, nodes: Sequence[NodeRow], *, dead_s: float) -> str:
    """Return the node's name: the wanted one, else the host's, with a tail where another machine has that.

    Args:
        wanted: what a person asked for; None: nothing.
        nodes: all known nodes.
        dead_s: age of a last beat that makes a node dead.

    Raises:
        UsageError: it cannot name a node.
        NameTaken: another machine is alive under the wanted name.
    """
    alive = {n.name for n in nodes if n.identity != machine.identity and _is_alive(n, dead_s)}
    tail = re.sub(r"[^A-Za-z0-9]", "", machine.identity)[-4:]
    if wanted is not None:
        name = ids.node_name(wanted)
        if name in alive:
            raise NameTaken(name, f"{name}-{tail}")
        return name
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", host).strip("-_.")[:58] or "node"
    return ids.node_name(f"{name}-{tail}" if name in alive else name)


def _is_alive(node: NodeRow, dead_s: float) -> bool:
    return node.state != "gone" and node.beat_age_s is not None and node.beat_age_s < dead_s
