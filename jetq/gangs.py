"""Send gangs: check what is asked for, pack its folder, bring it to the ledger, and put the gang into the queue."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jetq import ids, wire
from jetq.config import Settings
from jetq.errors import BrokerDown, BrokerFull, PublishUnknown, UsageError
from jetq.job import Job, sent
from jetq.launch.advice import Advice, advise
from jetq.launch.workdir import Packed, entries, pack
from jetq.model.gang import GangSpec, node_range
from jetq.model.job import JobRow
from jetq.policy.fits import never_fits
from jetq.policy.timetable import Room
from jetq.policy.turns import QueuedGang
from jetq.store.base import Placed
from jetq.store.redis import RedisStore

#: A command's second word with one of these endings is a script that its first word reads.
_SCRIPTS = (".py", ".sh", ".jl", ".R", ".pl")
#: A longer script is not looked through (characters).
_MOST_SCRIPT = 1 << 20


class Queue(Protocol):
    """What the ledger does for whoever sends a gang."""

    def job(self, job_id: str) -> JobRow | None:
        """Return one job, or None."""
        ...

    def rooms(self) -> list[Room]:
        """Return the nodes that are there, and who holds what."""
        ...

    def keep_blob(self, blob_id: str) -> bool:
        """Let a blob stay for another day. False: it is not there."""
        ...

    def put_blob(self, blob_id: str, content: bytes) -> None:
        """Bring a blob."""
        ...

    def submit_gang(self, job_id: str, spec: GangSpec, template: str, *, over_streams: bool, keep: bool) -> Placed:
        """Take a gang into the queue."""
        ...


@dataclass(frozen=True, slots=True)
class Wish:
    """A gang that somebody asks for, checked as far as it can be without a cluster."""

    spec: GangSpec
    packed: Packed | None = None  # the folder it runs in; None: an empty one
    over_streams: bool = False  # streams may be moved for it
    keep: bool = False  # its members' folders stay when it has ended
    advice: tuple[Advice, ...] = ()  # what its script does that is wrong on several nodes


def wish(
    argv: Sequence[str],
    *,
    nodes: int | str = 1,
    workdir: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    over_streams: bool = False,
    keep: bool = False,
    **fields: Any,
) -> Wish:
    """Return what is asked for, with its folder packed.

    Args:
        argv: program and arguments.
        nodes: how many, or ``"MIN:MAX"``.
        workdir: the folder that travels to every member; None: an empty one.
        fields: of :class:`~jetq.model.gang.GangSpec`.

    Raises:
        UsageError: a bad value, or a folder that cannot travel.
    """
    least, most = node_range(str(nodes))
    spec = GangSpec(argv, min_nodes=least, max_nodes=most, env=env or {}, **fields)  # type: ignore[arg-type]
    folder = None if workdir is None else Path(workdir)
    packed = None if folder is None else pack(folder)
    _check_command(spec.argv, folder)
    advice = tuple(advise(spec.argv, partial(_script, folder)))
    return Wish(replace(spec, workdir=packed.id if packed else None), packed, over_streams, keep, advice)


class GangSide:
    """What `JetQ` does for gangs."""

    settings: Settings
    _store: RedisStore
    _producer: wire.Producer

    def gang(
        self,
        argv: Sequence[str],
        *,
        nodes: int | str = 1,
        ranks: int = 1,
        slots: float = 1,
        gpu: int = 0,
        mem_bytes: int = 0,
        launcher: str = "torchrun",
        workdir: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Sequence[str] = (),
        priority: str | int | None = None,
        time_limit_s: float | None = None,
        retries: int = 0,
        name: str = "",
        transport: str = "jetq",
        as_root: bool = False,
        over_streams: bool = False,
        keep: bool = False,
        job_id: str | None = None,
    ) -> Job:
        """Run a command as some processes (ranks) on each of some nodes, on all at once, and return its job.

        Args:
            argv: program and arguments, the same for all ranks.
            nodes: how many, or ``"MIN:MAX"``.
            ranks: on each node. slots, gpu, mem_bytes: what each of them needs.
            launcher: torchrun or mpirun. transport: how mpirun reaches other nodes (jetq or ssh).
            workdir: a folder that travels to every node and that ranks begin in; None: an empty one.
            time_limit_s: of one attempt. retries: after the command itself failed.
            over_streams: streams may be moved for it. keep: leave its folders on the nodes.
            job_id: same id, same work: sending it again is safe and sends nothing twice.

        Raises:
            UsageError: a bad value, or a folder that cannot travel.
            NeverFits: it needs more than there is.
            PublishRefused: the id is in use for other work.
            PublishUnknown: the broker did not answer; send it again with the id in the error.
        """
        fields: dict[str, Any] = {"ranks": ranks, "slots": slots, "gpu": gpu, "mem_bytes": mem_bytes, "labels": labels}
        fields |= {"launcher": launcher, "transport": transport, "as_root": as_root, "name": name}
        fields |= {"priority": priority, "time_limit_s": time_limit_s, "retries": retries}
        asked = wish(argv, nodes=nodes, workdir=workdir, env=env, over_streams=over_streams, keep=keep, **fields)
        return self.send_gang(asked, job_id=job_id)

    def send_gang(self, asked: Wish, *, job_id: str | None = None) -> Job:
        """Send a gang that `jetq.gangs.wish` has checked (errors: those of :meth:`gang`)."""
        known_as = ids.job_id(job_id) if job_id is not None else ids.new_job_id()
        template, most = partial(self._producer.part_template, "gang"), self.settings.max_arg_bytes
        try:
            placed = submit(self._store, template, asked, known_as, most_bytes=most)
        except BrokerFull:  # its answer says what to do
            raise
        except BrokerDown as exc:
            raise PublishUnknown(known_as) from exc
        return sent(self._store, placed)


def submit(
    ledger: Queue, template: Callable[[Mapping[str, str]], str], asked: Wish, job_id: str, *, most_bytes: int
) -> Placed:
    """Put a gang into the queue; to send the same one again under its id is safe and sends nothing.

    Args:
        ledger: takes it.
        template: gives the message of its members, from what monitors shall show of them.
        most_bytes: its spec may not be larger.

    Raises:
        UsageError: command and variables are too large.
        NeverFits: it needs more than there is.
        BrokerDown: it may or may not be there.
    """
    size = len(json.dumps(asked.spec.as_json()))
    if size > most_bytes:
        raise UsageError(f"the command and its variables take {size} bytes, more than {most_bytes}: put it into a file")
    gang = QueuedGang.of(job_id, asked.spec, submitted_s=0.0, over_streams=asked.over_streams)
    fault = never_fits(gang, ledger.rooms())
    if fault is not None and ledger.job(job_id) is None:
        raise fault
    if asked.packed is not None and not ledger.keep_blob(asked.packed.id):
        ledger.put_blob(asked.packed.id, asked.packed.blob)
    shown = {"gang": asked.spec.name, "command": shlex.join(asked.spec.argv)}
    return ledger.submit_gang(job_id, asked.spec, template(shown), over_streams=asked.over_streams, keep=asked.keep)


def _script(folder: Path | None, name: str) -> str | None:
    """Return the text of a script in a folder; None: it is not there, or cannot be looked through."""
    if folder is None or name.startswith("/"):
        return None
    try:
        with open(folder / name, encoding="utf-8") as file:
            text = file.read(_MOST_SCRIPT + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) <= _MOST_SCRIPT else None


def _check_command(argv: Sequence[str], folder: Path | None) -> None:
    """Refuse a command that begins with a program, or names a script, that is not in the folder it will run in.

    Raises:
        UsageError: it is not there, or a program is not executable.
    """
    program, script = argv[0], argv[1] if len(argv) > 1 else ""
    if "/" in program and not program.startswith("/"):
        _check_there(program, folder, executable=True)
    if script.endswith(_SCRIPTS) and not script.startswith(("/", "-")):
        _check_there(script, folder)


def _check_there(name: str, folder: Path | None, *, executable: bool = False) -> None:
    path = "/".join(part for part in name.split("/") if part not in ("", "."))
    if ".." in path.split("/"):
        raise UsageError(f"{name} leads out of the workdir, which nodes do not have; give a folder above it")
    if folder is None:
        raise UsageError(f"{name} will not be there: ranks begin in an empty folder; send its own with --workdir")
    packed = {entry.path: entry for entry in entries(folder)}
    on_its_way = [packed.get(path[:at]) for at, letter in enumerate(path + "/") if letter == "/"]
    if any(entry is not None and entry.kind == "link" for entry in on_its_way):
        return
    entry = on_its_way[-1]
    if entry is None or entry.kind != "file":
        if (folder / path).is_file():
            raise UsageError(f"an ignore file leaves {name} out of the workdir {folder}; take it in by !{path}")
        raise UsageError(f"{name} is not in the workdir {folder}; paths are read from there")
    if executable and not entry.executable:
        raise UsageError(f"{name} is not executable; make it so (chmod +x), or name its interpreter before it")
