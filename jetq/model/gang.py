"""What somebody asks for with a gang: one validated value that crosses the wire as JSON."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from jetq import ids
from jetq.errors import UsageError
from jetq.model.needs import Needs, priority

LAUNCHERS = ("torchrun", "mpirun")
#: How mpirun reaches other machines: through jetq's own agents, or by ssh.
TRANSPORTS = ("jetq", "ssh")
#: More nodes, or ranks on one node, are a typo.
MOST = 1024
#: Linux gives a program no string of more than 128 KiB, and mpirun makes one of the whole command (bytes).
MOST_BYTES = 120 * 1024
#: The id of a packed workdir: SHA-256 in hex.
WORKDIR_ID = re.compile(r"[0-9a-f]{64}")
#: Variables that the launcher gives each rank itself.
RANK_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
#: After it an interpreter is given code: ``-c``, ``-lc``.
_CODE = re.compile(r"-[A-Za-z]*c")
_INTERPRETER = re.compile(r"(python|pypy|bash|sh|perl|julia|Rscript)[\d.]*")


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A command that runs as ``ranks`` processes on each of some nodes, on all of them at once."""

    argv: tuple[str, ...]  # program and arguments, the same for every rank
    min_nodes: int = 1
    max_nodes: int = 1
    ranks: int = 1  # on each node
    slots: float = 1.0  # of each rank
    gpu: int = 0  # 1: the rank holds its node's GPU; then one rank a node
    mem_bytes: int = 0  # of each rank; declared, not measured
    launcher: str = "torchrun"
    env: Mapping[str, str] = field(default_factory=dict)  # for every rank
    labels: tuple[str, ...] = ()  # every node must carry them
    priority: int = 3  # kombu's number: 0 urgent, 3 normal, 6 low
    time_limit_s: float | None = None  # of one attempt
    retries: int = 0  # new starts after the command itself failed
    name: str = ""  # run times are learned by it; "": made from the command
    workdir: str | None = None  # id of the packed folder to run in; None: an empty one
    transport: str = "jetq"  # mpirun only
    as_root: bool = False  # lets mpirun run as root

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # frozen
        set_(self, "argv", _argv(self.argv))
        for what, least in (("min_nodes", 1), ("max_nodes", 1), ("ranks", 1)):
            _check_whole(what, getattr(self, what), least=least, most=MOST)
        if self.min_nodes > self.max_nodes:
            raise UsageError(f"nodes {self.min_nodes}:{self.max_nodes}: the least is more than the most")
        _check_one_of("launcher", self.launcher, LAUNCHERS)
        _check_one_of("transport", self.transport, TRANSPORTS)
        if self.transport != "jetq" and self.launcher != "mpirun":
            raise UsageError(f"transport {self.transport} is for mpirun; {self.launcher} needs none")
        set_(self, "env", MappingProxyType(_environment(self.env)))
        set_(self, "priority", priority(self.priority))
        _check_whole("retries", self.retries, least=0, most=MOST)
        _check_whole("mem_bytes", self.mem_bytes, least=0, most=1 << 62)
        if self.time_limit_s is not None and not _is_number(self.time_limit_s, above=0):
            raise UsageError(f"time_limit_s must be a number of seconds above 0, not {self.time_limit_s!r}")
        if not (_is_number(self.slots, above=0) and self.slots <= MOST):
            raise UsageError(f"slots must be a number above 0, up to {MOST}, not {self.slots!r:.80}")
        if not isinstance(self.as_root, bool):
            raise UsageError(f"as_root must be true or false, not {self.as_root!r}")
        self._check_gpu()
        if self.workdir is not None and not _matches(WORKDIR_ID, self.workdir):
            raise UsageError(f"workdir must be the id of a packed folder, not {self.workdir!r:.80}")
        set_(self, "name", _name(self.name, self.argv))
        set_(self, "labels", _labels(self.labels))

    @property
    def needs(self) -> Needs:
        """What the gang holds on each of its nodes."""
        return Needs(self.labels, self.slots * self.ranks, self.gpu, self.mem_bytes * self.ranks)

    def world_size(self, nodes: int) -> int:
        """Return the number of ranks on so many nodes."""
        return nodes * self.ranks

    def as_json(self) -> dict[str, Any]:
        """Return the spec as plain values; ``from_json`` reads them."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {"argv": list(self.argv), "env": dict(self.env), "labels": list(self.labels)}

    @classmethod
    def from_json(cls, plain: object) -> GangSpec:
        """Read what ``as_json`` gave, or what somebody wrote by hand.

        Raises:
            UsageError: it is no object, a field is unknown or missing, or a value is bad.
        """
        if not isinstance(plain, Mapping):
            raise UsageError(f"a gang's spec must be a JSON object, not {plain!r:.80}")
        known = [f.name for f in fields(cls)]
        for key in plain:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)
                raise UsageError(f"a gang has no field {key!r}; did you mean {near[0]}?")
        if "argv" not in plain:
            raise UsageError("a gang needs a command: argv is missing")
        return cls(**plain)

    def _check_gpu(self) -> None:
        if not _is_whole(self.gpu) or self.gpu not in (0, 1):
            raise UsageError(f"gpu must be 0 or 1, not {self.gpu!r}")
        if self.gpu and self.ranks > 1:
            raise UsageError(f"a rank with a GPU holds its node's only one: ask for 1 rank a node, not {self.ranks}")


def node_range(text: str) -> tuple[int, int]:
    """Return the least and the most nodes that ``N`` or ``MIN:MAX`` names.

    Raises:
        UsageError: neither form, less than 1, or MIN above MAX.
    """
    least, colon, most = text.partition(":")
    if not least.isdecimal() or (colon and not most.isdecimal()):
        raise UsageError(f"nodes must be N or MIN:MAX, for example 4 or 2:4, not {text!r}")
    low, high = int(least), int(most if colon else least)
    if low < 1 or high > MOST:
        raise UsageError(f"nodes must be from 1 to {MOST}, not {text}")
    if low > high:
        raise UsageError(f"nodes {text}: the least is more than the most")
    return low, high


def assignments(words: Iterable[str]) -> dict[str, str]:
    """Return the variables that words of the form ``NAME=VALUE`` set; of two for one name, the last.

    Raises:
        UsageError: another form, or a name that may not be set.
    """
    pairs = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise UsageError(f"--env {word}: write NAME=VALUE")
        pairs[name] = value
    return _environment(pairs)


def _argv(words: object) -> tuple[str, ...]:
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise UsageError(f"the command must be a list of words, not {words!r:.80}")
    argv = tuple(words)
    if not argv or not argv[0]:
        raise UsageError("a gang needs a command; write it after --, for example: -- python train.py")
    if not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise UsageError("each word of the command must be text without NUL characters")
    if argv[0].startswith("-"):
        raise UsageError(f"the command begins with the flag {argv[0]!r}; name a program first, for example: python")
    _check_length("the command", " ".join(argv))
    return argv


def _check_length(what: str, text: str) -> None:
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError as exc:
        raise UsageError(f"{what} has characters in it that no program can be given ({exc.reason})") from exc
    if size > MOST_BYTES:
        raise UsageError(f"{what} takes {size} bytes, and {MOST_BYTES} is the most; put it into a file of the workdir")


def _environment(env: object) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise UsageError(f"env must map names to values, not {env!r:.80}")
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise UsageError(f"{name!r} cannot name a variable: use letters, digits and _, no digit first")
        if not isinstance(value, str) or "\0" in value:
            raise UsageError(f"the value of {name} must be text without NUL characters, not {value!r:.80}")
        _check_length(f"the value of {name}", value)
        if name.startswith("JETQ_") or name in RANK_VARIABLES:
            raise UsageError(f"{name} is set by jetq or the launcher for each rank; leave it out")
    return dict(sorted(env.items()))


def _labels(labels: object) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise UsageError(f"labels must be a list of labels, not {labels!r:.80}")
    given = list(labels)
    if not all(isinstance(label, str) for label in given):
        raise UsageError(f"labels must be a list of labels, not {given!r:.80}")
    return tuple(sorted({ids.label(label) for label in given}))


def _name(name: object, argv: tuple[str, ...]) -> str:
    """Return a name that was given, checked, or else the last part of the script's or the program's path."""
    if name:
        if not _matches(_NAME, name):
            raise UsageError(f"{name!r:.80} cannot name a gang: use 1-63 letters, digits, dots, dashes, underscores")
        return str(name)
    words = [word.rpartition("/")[2] for word in argv if not word.startswith("-")]
    scripted = len(words) > 1 and not _CODE.fullmatch(argv[1]) and _INTERPRETER.fullmatch(words[0])
    script = words[1] if scripted else words[0]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", script).strip("-_.")[:63] or "gang"


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object, *, above: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and above < value < math.inf


def _check_whole(what: str, value: object, *, least: int, most: int) -> None:
    if not (_is_whole(value) and least <= value <= most):  # type: ignore[operator]
        raise UsageError(f"{what} must be a whole number from {least} to {most}, not {value!r:.80}")


def _check_one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{what} must be {' or '.join(known)}, not {value!r:.80}")
