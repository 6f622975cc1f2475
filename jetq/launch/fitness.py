"""Whether the nodes of a gang go together: one PyTorch, one Open MPI, room. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jetq.launch.prepare import Hello, in_order
from jetq.model.gang import GangSpec

#: What the log, the launchers' own files and a first checkpoint take (bytes).
SPARE_DISK_BYTES = 256 * 1024**2
#: A clock this far from the broker's makes the times in logs and of files misleading (s).
MOST_SKEW_S = 1.0
#: The oldest PyTorch whose torchrun is called rightly.
OLDEST_TORCH = (2, 4)
OPEN_MPI = (4, 5)

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that cannot take part."""

    node: str
    why: str

    def __str__(self) -> str:
        return f"node {self.node}: {self.why}"


def refusals(spec: GangSpec, hellos: Sequence[Hello], *, disk_bytes: int = 0) -> list[Refusal]:
    """Return which nodes cannot take part, and why; every member gets the same answer.

    Args:
        disk_bytes: what each member is going to write, as far as that is known.

    Raises:
        MembersUnfit: this is no whole gang.
    """
    ordered = in_order(hellos)
    found = [Refusal(hello.node, why) for hello in ordered for why in hello.refusals]
    found += _torch(ordered) if spec.launcher == "torchrun" else _open_mpi(ordered)
    found += _room(spec, ordered, SPARE_DISK_BYTES + disk_bytes)
    return found


def notes(spec: GangSpec, hellos: Sequence[Hello]) -> list[str]:
    """Return what a person should know of these nodes, though the gang can start on them.

    Raises:
        MembersUnfit: this is no whole gang.
    """
    ordered = in_order(hellos)
    found = [
        f"the clock of node {hello.node} is {abs(hello.skew_s):.1f} s {'ahead of' if hello.skew_s > 0 else 'behind'} "
        "the broker's; times in its logs and of its files mislead: set it (chrony, systemd-timesyncd)"
        for hello in ordered
        if abs(hello.skew_s) > MOST_SKEW_S
    ]
    usual, odd = _odd(ordered, lambda hello: version(hello.python)[:2])
    found += [
        f"node {hello.node} has Python {hello.python}, the others {_dotted(usual)}: "
        "what one pickles, another may not read"
        for hello in odd
    ]
    return found


def version(text: str) -> Version:
    """Return the leading numbers of a version: (2, 5, 0) of ``2.5.0a0+872d972e41.nv24.8``; () of nonsense."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _torch(hellos: Sequence[Hello]) -> Iterator[Refusal]:
    able = []
    for hello in hellos:
        if hello.torch is None:
            yield Refusal(
                hello.node,
                f"PyTorch is not installed beside jetq's Python {hello.python}; install it there "
                "(on a Jetson: NVIDIA's wheel for its JetPack), or start the command with --launcher mpirun",
            )
        elif version(hello.torch)[:2] < OLDEST_TORCH:
            yield Refusal(hello.node, f"it has PyTorch {hello.torch}, but {_dotted(OLDEST_TORCH)} or newer is needed")
        else:
            able.append(hello)
    usual, odd = _odd(able, lambda hello: version(hello.torch or "")[:2])
    for hello in odd:
        yield Refusal(
            hello.node,
            f"it has PyTorch {hello.torch}, the others {_dotted(usual)}: ranks of two versions may hang or fail; "
            "install one version on all",
        )


def _open_mpi(hellos: Sequence[Hello]) -> Iterator[Refusal]:
    able = []
    for hello in hellos:
        if hello.open_mpi is None:
            yield Refusal(hello.node, "Open MPI is not installed (no mpirun of it on PATH); install it, version 4 or 5")
        elif hello.open_mpi not in OPEN_MPI:
            yield Refusal(hello.node, f"it has Open MPI {hello.open_mpi}, but 4 or 5 is needed")
        else:
            able.append(hello)
    usual, odd = _odd(able, lambda hello: (hello.open_mpi or 0,))
    for hello in odd:
        yield Refusal(
            hello.node,
            f"it has Open MPI {hello.open_mpi}, the others {_dotted(usual)}: they do not speak with each other; "
            "install one major version on all",
        )


def _room(spec: GangSpec, hellos: Sequence[Hello], disk_bytes: int) -> Iterator[Refusal]:
    beside = Counter(hello.place for hello in hellos)  # they share the machine's memory
    for hello in hellos:
        if hello.disk_free_bytes is not None and hello.disk_free_bytes < disk_bytes:
            yield Refusal(
                hello.node,
                f"{_mib(hello.disk_free_bytes)} of disk are free at {hello.folder}, but {_mib(disk_bytes)} are needed; "
                "make room there",
            )
        mem_bytes = spec.needs.mem_bytes * beside[hello.place]
        if hello.mem_free_bytes is not None and hello.mem_free_bytes < mem_bytes:
            several = f" (for {beside[hello.place]} members on that machine)" if beside[hello.place] > 1 else ""
            yield Refusal(
                hello.node,
                f"{_mib(hello.mem_free_bytes)} of memory are free, but {_mib(mem_bytes)} are needed{several}; "
                "end what uses it, or ask for less",
            )


def _odd(hellos: Sequence[Hello], key: Callable[[Hello], Version]) -> tuple[Version, list[Hello]]:
    """Return what most have (of two that are as many, what comes first), and who has something else."""
    if not hellos:
        return (), []
    usual = Counter(key(hello) for hello in hellos).most_common(1)[0][0]
    return usual, [hello for hello in hellos if key(hello) != usual]


def _dotted(numbers: Version) -> str:
    return ".".join(str(number) for number in numbers)


def _mib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
