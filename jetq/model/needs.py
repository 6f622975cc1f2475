"""What a job needs of a node, and the cohort of nodes that can serve it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from jetq import ids
from jetq.errors import UsageError

_GIB = 1024**3
#: A job that names no priority is ``normal``; kombu pops the lowest number first.
PRIORITIES = {"urgent": 0, "normal": 3, "low": 6}
#: kombu's ``priority_steps``: the lists a queue is split into.
PRIORITY_STEPS = (0, 3, 6)
#: Implicit labels of a node that has a GPU, what video work needs (the extra ``video``), what models need (``onnx``).
GPU_LABEL, VIDEO_LABEL, ONNX_LABEL = "gpu", "video", "onnx"
#: Ends the name of a cohort whose nodes must also know a task (the ledger's scripts write it).
TASK_MARK = "@task="


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job holds on a node while assigned, and where it may go."""

    labels: tuple[str, ...] = ()  # all of them must be carried; sorted, unique
    slots: float = 1.0  # units of concurrent work
    gpu: int = 0  # 0 or 1; exclusive
    mem_bytes: int = 0  # declared, not measured

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(sorted({ids.label(x) for x in self.labels})))
        if not 0 < self.slots < float("inf"):
            raise UsageError(f"slots must be a number above 0, not {self.slots}")
        if self.gpu not in (0, 1):
            raise UsageError(f"gpu must be 0 or 1, not {self.gpu!r}")
        if self.mem_bytes < 0:
            raise UsageError(f"mem_bytes must be 0 or more, not {self.mem_bytes}")

    @property
    def mem_gib(self) -> int:
        """The memory class in GiB: 0, 1, 2, 4, 8 …, ``mem_bytes`` rounded up."""
        if not self.mem_bytes:
            return 0
        size = 1
        while size * _GIB < self.mem_bytes:
            size *= 2
        return size

    @property
    def cohort(self) -> str:
        """The name of the nodes that can serve these needs; they share one queue.

        ``any`` where nothing is required, else for example ``arch=aarch64+zone=yard+@gpu+@mem4``.
        """
        parts = [*self.labels]
        if self.slots > 1:
            parts.append(f"@slots{self.slots:g}")
        if self.gpu:
            parts.append("@gpu")
        if self.mem_gib:
            parts.append(f"@mem{self.mem_gib}")
        return "+".join(parts) or "any"


def with_task(cohort: str, name: str) -> str:
    """Return the name of those nodes of a cohort that know a task, as the ledger's scripts make it."""
    mark = TASK_MARK + re.sub(r"[\s%]", lambda found: f"%{ord(found[0]):02X}", name)
    return mark if cohort == "any" else f"{cohort}+{mark}"


def task_of(cohort: str) -> str | None:
    """Return the task that the nodes of a cohort must know; None: any."""
    _, mark, name = cohort.partition(TASK_MARK)
    return unquote(name) if mark else None


def spoken(cohort: str) -> str:
    """Return what the nodes of a cohort have in common besides a task they know, "" where that is nothing."""
    asked = cohort.partition(TASK_MARK)[0].rstrip("+")
    return "" if asked == "any" else asked


def priority(value: str | int | None) -> int:
    """Return kombu's number for a priority name or number (``None`` is normal).

    Raises:
        UsageError: neither a known name nor a number from 0 to 9.
    """
    if value is None:
        return PRIORITIES["normal"]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 9:
        return max(step for step in PRIORITY_STEPS if step <= value)
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    raise UsageError(f"priority must be one of {', '.join(PRIORITIES)}, not {value!r}")
