"""Settings: one frozen, validated value, built at the edge from flags and the environment."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from jetq.errors import UsageError

#: What jetq sets for jobs and for its own processes; known, but nothing a person sets.
EXPORTED = frozenset(
    {
        *(
            "JETQ_JOB_ID",
            "JETQ_TOKEN",
            "JETQ_ATTEMPT",
            "JETQ_CKPT_DIR",
            "JETQ_PROGRESS",
            "JETQ_FILES_DIR",
            "JETQ_OUTPUT",
            "JETQ_JOBS_DIR",
        ),
        *(
            "JETQ_WORKDIR",
            "JETQ_MEMBER",
            "JETQ_LAUNCH",
            "JETQ_GUARDED",
            "JETQ_MARK",
            "JETQ_EPOCH",
            "JETQ_PAGE",
            "JETQ_REJOINS",
            "JETQ_WORLD",
        ),
    }
)
#: Flags of the command line that have a twin of the same name but no field here.
_FLAG_TWINS = frozenset({"JETQ_LISTEN", "JETQ_NODES", "JETQ_JSON"})
#: Comma separated lists have their variable in the singular, like the flag that may be repeated.
_LISTS = {
    "JETQ_LABEL": "labels",
    "JETQ_ALSO_QUEUE": "also_queues",
    "JETQ_GANG_ALLOW": "gang_allow",
    "JETQ_STREAM_ALLOW": "stream_allow",
}
_CLUSTER = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def default_dir() -> Path:
    """Return the folder of the embedded broker: ``$XDG_DATA_HOME/jetq`` or ``~/.local/share/jetq``."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "jetq"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Each field's environment twin is ``JETQ_`` + the field in capitals."""

    broker_url: str | None = None  # redis://, rediss://, unix:// or sentinel://; None: the `jetq up` of ``dir``
    cluster: str = "jetq"  # namespace of all keys; several clusters may share a broker
    dir: Path | None = None  # folder of the embedded broker; None: default_dir()
    node: str | None = None  # node name; None: host name
    board: str | None = None  # hardware model; None: probed. Speed is learned per board, so unlike PCs need names
    slots: int | None = None  # None: min(online cores, (RAM - 2 GiB) / 512 MiB)
    app_dir: Path | None = None  # folder whose tasks/ are loaded beside the built-in ones
    app: str | None = None  # pkg.mod:app, an existing Celery app
    also_queues: tuple[str, ...] = ()  # plain Celery queues to read as well (environment: JETQ_ALSO_QUEUE)
    labels: tuple[str, ...] = ()  # carried by this node (environment: comma separated)
    shared: Path | None = None  # folder that all nodes mount
    gang_allow: tuple[str, ...] = ()  # patterns (*, ?) of commands that gangs may run on this node; (): any
    stream_allow: tuple[str, ...] = ()  # folders, and patterns of addresses, that streams may open here; (): any
    decode: str = ""  # 1080p30 streams that this node's decoder takes: 20, or h264=12,h265=20; "": by its board
    strategy: str = "dynamic"  # the cluster's default routing strategy
    dead_s: float = 5.0  # s without a beat until a node is dead; scales every liveness time
    grace_s: float = 30.0  # s a stopping node waits for what runs
    max_arg_bytes: int = 1024 * 1024  # largest arguments of one job
    max_result_bytes: int = 1024 * 1024  # a larger result is not kept by the ledger (a task's own option wins)
    result_ttl_s: int = 24 * 3600  # s that a finished job stays known
    http: str | None = (
        None  # where this node serves its jobs' files: ADDR[:PORT], or auto (faces the broker); None: loopback
    )
    log_max_bytes: int = 16 * 1024**2  # of one run's output; the oldest is dropped beyond it
    files_max_bytes: int = 2 * 1024**3  # of all that jobs have left on a node; the oldest goes beyond it
    pool: str = "fork"  # how pool children start: fork or spawn
    log_level: str = "info"  # debug, info, warning or error

    def __post_init__(self) -> None:
        for name in ("dir", "app_dir", "shared"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))
        if not _CLUSTER.fullmatch(self.cluster):
            raise UsageError(f"cluster {self.cluster!r}: use 1-32 lower-case letters, digits, dashes, underscores")
        if self.slots is not None and not 1 <= self.slots <= 1024:
            raise UsageError(f"slots must be a whole number from 1 to 1024, not {self.slots}")
        for name in ("dead_s", "grace_s"):
            value = getattr(self, name)
            least = 1 if name == "dead_s" else 0
            if not (math.isfinite(value) and value >= least):
                raise UsageError(f"{name} must be a number of seconds, {least} or more, not {value}")
        if self.max_arg_bytes < 1 or self.max_result_bytes < 1 or self.result_ttl_s < 60:
            raise UsageError("max_arg_bytes and max_result_bytes must be at least 1, and result_ttl_s at least 60")
        if self.log_max_bytes < 4096 or self.files_max_bytes < 0:
            raise UsageError("log_max_bytes must be at least 4096 and files_max_bytes 0 or more")
        if self.pool not in ("fork", "spawn"):
            raise UsageError(f"pool must be fork or spawn, not {self.pool!r}")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise UsageError(f"log_level must be debug, info, warning or error, not {self.log_level!r}")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """Build settings from ``JETQ_*`` variables; ``given`` values that are not ``None`` win.

        Raises:
            UsageError: an unknown ``JETQ_*`` variable (the message names the nearest), or a value out of range.
        """
        env = os.environ if environ is None else environ
        known = {f"JETQ_{f.name.upper()}": f.name for f in fields(cls)}
        for one, many in _LISTS.items():
            known[one] = known.pop(f"JETQ_{many.upper()}")
        values: dict[str, Any] = {}
        for key, text in env.items():
            if not key.startswith("JETQ_") or key in EXPORTED or key in _FLAG_TWINS:
                continue
            if key not in known:
                near = difflib.get_close_matches(key, [*known, *_FLAG_TWINS], n=1, cutoff=0.0)
                raise UsageError(f"{key} is set, but jetq knows no such variable; did you mean {near[0]}?")
            values[known[key]] = _parse(key, known[key], text)
        values.update({k: v for k, v in given.items() if v is not None})
        return cls(**values)

    def with_(self, **changes: Any) -> Settings:
        """Return a copy with some fields changed, validated again."""
        return replace(self, **changes)

    @property
    def home_dir(self) -> Path:
        """The folder of the embedded broker."""
        return self.dir or default_dir()

    def as_environ(self) -> dict[str, str]:
        """Return the variables that make a child process build the same settings (defaults left out)."""
        out: dict[str, str] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default and value is not None:
                key = next((k for k, v in _LISTS.items() if v == f.name), f"JETQ_{f.name.upper()}")
                out[key] = ",".join(value) if f.name in _LISTS.values() else str(value)
        return out


#: Settings that are counts of bytes or seconds.
_WHOLE = frozenset({"max_arg_bytes", "max_result_bytes", "result_ttl_s", "log_max_bytes", "files_max_bytes"})


def _parse(key: str, field_name: str, text: str) -> Any:
    try:
        if field_name == "slots":
            return _slots(text)
        if field_name in _WHOLE:
            return int(text)
        if field_name in ("dead_s", "grace_s"):
            return float(text)
    except ValueError:
        kind = "a whole number" if field_name in _WHOLE else "a number"
        raise UsageError(f"{key}={text!r}: {kind} is needed") from None
    if field_name in ("dir", "app_dir", "shared"):
        return Path(text)
    if field_name in _LISTS.values():
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _slots(text: str) -> int | None:
    """Return a node's slots. None: a list, one for each node of `jetq up`, is no other verb's business."""
    numbers = [int(part) for part in text.split(",")]
    return numbers[0] if len(numbers) == 1 else None
