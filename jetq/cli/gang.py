"""Run a command on several nodes at once."""

from __future__ import annotations

import math
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from jetq import ids
from jetq.cli.attached import View, say_end
from jetq.cli.format import print_json, say
from jetq.cli.options import Where, broker_options, byte_count, json_option, words
from jetq.cli.sent import print_sent
from jetq.client import JetQ
from jetq.errors import BrokerDown, JetqError, NoSuchJob, UsageError
from jetq.gangs import Wish, wish
from jetq.launch.preview import Preview, preview
from jetq.model.gang import LAUNCHERS, TRANSPORTS, assignments
from jetq.model.job import JobRow, JobState
from jetq.model.needs import PRIORITIES
from jetq.service.following import follow
from jetq.service.gangs import queued
from jetq.store.redis import RedisStore

#: The exit code of whatever jetq refuses here: that of the command may be any other.
REFUSED = 64
#: The exit codes of a gang that somebody else cancelled (as if by SIGTERM), of one that Ctrl-C cancelled, and of one
#: that failed without a code of its own.
CANCELLED, INTERRUPTED, FAILED = 128 + 15, 130, 1


class GangCommand(click.Command):
    """A command whose refusals have an exit code of their own."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Read the command line."""
        with _refusals():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        with _refusals():
            return super().invoke(ctx)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except click.UsageError as exc:
        refusal = UsageError(f"{exc.format_message()} (see `jetq gang --help`)")
        refusal.exit_code = REFUSED
        raise refusal from exc
    except JetqError as exc:
        if exc.exit_code != BrokerDown.exit_code:
            exc.exit_code = REFUSED
        raise


@click.command(
    cls=GangCommand,
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  jetq gang --nodes 4 --workdir . -- python train.py --epochs 3
  jetq gang --nodes 2:4 --ranks 2 --launcher mpirun --workdir . -- python pi.py
  jetq gang --nodes 2 --dry-run -- hostname
  jetq gang --nodes 2 --detach --workdir . -- python train.py""",
)
@click.argument("argv", nargs=-1, metavar="-- CMD ...", type=click.UNPROCESSED)
@click.option("--nodes", default="1", metavar="N|MIN:MAX", help="How many nodes.  [default: 1]")
@click.option("--ranks", type=int, default=1, metavar="R", help="Processes on each of them.  [default: 1]")
@click.option("--slots", type=float, default=1.0, metavar="S", help="Slots of each rank.  [default: 1]")
@click.option("--gpu", is_flag=True, help="Each rank holds its node's GPU; then one rank a node.")
@click.option(
    "--mem", "mem_bytes", type=byte_count, default="0", metavar="SIZE", help="Memory of each rank, e.g. 2GiB."
)
@click.option(
    "--launcher",
    default="torchrun",
    metavar="L",
    shell_complete=words(*LAUNCHERS),
    help="torchrun or mpirun.  [default: torchrun]",
)
@click.option(
    "--transport",
    default="jetq",
    metavar="T",
    shell_complete=words(*TRANSPORTS),
    help="How mpirun reaches other nodes: jetq or ssh.  [default: jetq]",
)
@click.option("--workdir", type=Path, metavar="DIR", help="Folder that travels along.  [default: an empty one]")
@click.option("--env", "env", multiple=True, metavar="K=V", help="Variable of every rank; may be repeated.")
@click.option("--label", "labels", multiple=True, metavar="L", help="Every node must carry it; may be repeated.")
@click.option("--priority", metavar="P", shell_complete=words(*PRIORITIES), help="urgent, normal or low.")
@click.option("--time-limit", "time_limit_s", type=float, metavar="S", help="End an attempt after S seconds.")
@click.option("--retries", type=int, default=0, metavar="N", help="New attempts after CMD failed.  [default: 0]")
@click.option("--name", default="", metavar="X", help="Run times are learned by it.  [default: from CMD]")
@click.option("--id", "job_id", metavar="ID", help="The job's id: sending the same id again sends nothing twice.")
@click.option("--over-streams", is_flag=True, help="Move running streams off the nodes that it needs.")
@click.option("--keep", is_flag=True, help="Leave its folders on the nodes when it has ended.")
@click.option("--as-root", is_flag=True, help="Let mpirun run as root.")
@click.option("--detach", is_flag=True, help="Print the id and return.")
@click.option("--dry-run", is_flag=True, help="Print what would be started, and send nothing.")
@json_option
@broker_options
def command(
    argv: tuple[str, ...],
    *,
    job_id: str | None,
    env: tuple[str, ...],
    gpu: bool,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    where: Where,
    **options: Any,
) -> int:
    """Run CMD as R processes (ranks) on each of N nodes, on all of them at once or not at all.

    Attached, it shows why the gang waits, then what its ranks write, each line with the rank's number before it, and
    ends with the exit code of the rank that failed first, or 0. Ctrl-C cancels the gang and waits until all of it has
    ended (exit code 130); a second Ctrl-C stops waiting. So does SIGTERM (exit code 143).

    Other exit codes: 64 jetq or a node refused it, and nothing ran; 69 the broker does not answer; 124 its time limit;
    143 somebody else cancelled it; 128+N a rank was killed by signal N; 1 it failed without such a code (a lost node).

    --json prints one object: the job (--detach) or the plan (--dry-run); attached, one for each line and then the job.
    """
    asked = wish(argv, env=assignments(env), gpu=int(gpu), **options)
    for advice in asked.advice:
        say(f"warning: {advice}")
    settings = where.settings()
    ledger = where.ledger_of(settings)
    if dry_run:
        _print_preview(asked, ledger, as_json=as_json)
        return 0
    client = JetQ.over(settings)
    known_as = ids.new_job_id() if job_id is None else job_id
    if not detach:
        return _Attached(client, ledger, known_as, as_json=as_json).run(asked)
    print_sent(client.send_gang(asked, job_id=known_as), as_json=as_json)
    return 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM: it means what Ctrl-C means, and ends with its own code."""


@contextmanager
def _terminable() -> Iterator[None]:
    def end(_signum: int, _frame: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Attached:
    """Sends a gang and shows it until it has ended."""

    def __init__(self, client: JetQ, ledger: RedisStore, job_id: str, *, as_json: bool) -> None:
        self._client = client
        self._ledger = ledger
        self._job = client.job(job_id)
        self._view = View(job_id, as_json=as_json)
        self._as_json = as_json
        self._place = ""

    def run(self, asked: Wish) -> int:
        """Return the exit code."""
        with self._view.open(), _terminable():
            try:
                job = self._client.send_gang(asked, job_id=self._job.id)
                self._view.talk(f"job {job.id}{' was there already, nothing was sent' if job.known else ''}")
                row = self._to_the_end()
            except NoSuchJob:
                self._view.talk("the broker was emptied, or lost its last writes, and with them this gang")
                self._view.talk("what runs of it is ended, and nobody tells how; send it again")
                return FAILED
            except KeyboardInterrupt as exc:
                self._cancel("SIGTERM" if isinstance(exc, _Terminated) else "Ctrl-C")
                return CANCELLED if isinstance(exc, _Terminated) else INTERRUPTED
            except BrokenPipeError:
                self._view.talk(f"nobody reads what the gang writes; it goes on: jetq job show {self._job.id}")
                raise
        say_end(row)
        return exit_code(row)

    def _to_the_end(self) -> JobRow:
        """Show it from where it was left off, and return its row once it has ended."""
        for look in follow(self._ledger, self._job.id, after=self._place):
            self._view.show(look)
            self._place = look.place
        row = self._job.row()
        if self._as_json:
            print_json(row.as_json())
        return row

    def _cancel(self, by: str) -> None:
        """Cancel it and wait until it has ended, unless that is interrupted, too."""
        job_id = self._job.id
        try:
            self._view.talk(f"cancelled; waits until all of it has ended ({by} again: do not wait)")
            self._job.cancel(f"cancelled by {by}")
            self._view.talk(f"it has ended: {self._to_the_end().state}")
        except NoSuchJob:
            self._view.talk("nothing was sent")
        except BrokerDown:
            self._view.talk(f"it may run on; once the broker is back: jetq job cancel {job_id}")
            raise
        except KeyboardInterrupt:
            self._view.talk(f"it has been asked to end; see whether it has: jetq job show {job_id}")


def exit_code(row: JobRow) -> int:
    """Return the exit code of whoever was attached to a gang that has ended."""
    if row.state == JobState.SUCCEEDED.value:
        return 0
    if row.state == JobState.CANCELLED.value:
        return CANCELLED
    ran = row.started_at is not None or any(event.get("ran") for event in row.history)
    code = (row.exit_code or FAILED) if ran else REFUSED
    return code if code > 0 else 128 - code


def _print_preview(asked: Wish, ledger: RedisStore, *, as_json: bool) -> None:
    waiting = [queued(gang) for gang in ledger.gangs() if gang.state is JobState.QUEUED]
    seen = preview(
        asked.spec, ledger.rooms(), ledger.nodes(), waiting, ledger.time_s(), over_streams=asked.over_streams
    )
    if as_json:
        print_json({"spec": asked.spec.as_json(), **seen.as_json()})
        return
    print(f"{asked.spec.name}: {asked.spec.world_size(len(seen.nodes))} ranks on {', '.join(seen.nodes)}")
    print(f"it would wait: {seen.waits}" if seen.waits else "it would start now")
    if asked.packed is not None:
        there = ", which the broker has" if ledger.has_blob(asked.packed.id) else ""
        count, size_kib = asked.packed.files, math.ceil(len(asked.packed.blob) / 1024)
        print(f"workdir: {count} file{'s' * (count != 1)}, {size_kib} KiB packed, {asked.packed.id[:12]}{there}")
    _print_starts(seen)


def _print_starts(seen: Preview) -> None:
    for index, (start, address) in enumerate(zip(seen.plan.starts, seen.addresses, strict=True)):
        print(f"\nmember {index} on {start.node} ({address}), ranks {' '.join(map(str, start.ranks))}")
        print(f"  in {start.cwd}")
        for name, value in sorted(start.env.items()):
            print(f"  {name}={shlex.quote(value)}")
        for path, text in start.files.items():
            print(f"  {path}:")
            print("".join(f"    {line}\n" for line in text.splitlines()), end="")
        if start.answers_for:
            print(f"  starts the daemon that mpirun asks for at {start.answers_for}")
        if start.argv:
            print(f"  {shlex.join(start.argv)}")
    print()
    for note in seen.notes:
        print(f"note: {note}")
