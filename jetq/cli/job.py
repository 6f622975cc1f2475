"""List, show, wait for and cancel jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import click

from jetq.cli.complete import job_ids, task_names
from jetq.cli.format import brief, duration, moment, print_fields, print_json, print_table, progress_of, say
from jetq.cli.jobfiles import files, logs, preview
from jetq.cli.options import Where, broker_options, json_option
from jetq.cli.streamview import fields, named, outcome
from jetq.errors import JobCancelled, JobFailed, NoSuchJob, WaitTimeout
from jetq.job import Job
from jetq.model.job import JobRow, JobState

#: What ``--kind`` takes.
KINDS = ("task", "stream", "gang")
#: Characters of an outcome; of a stream, which has more to say.
_WORDS, _STREAM_WORDS = 60, 200
#: What a cancel says of long jobs that run.
_ASKED = {"gang": ", its nodes are asked to end it", "stream": ", its node is asked to end it"}


@click.group(
    epilog="""\b
Examples:
  jetq job list --kind gang --state FAILED
  jetq job show 0b6f6f6e-5c1c-4d5e-8f53-0b7f3b1f2f3a
  jetq job wait --timeout 60 ID ID
  jetq job logs -f ID
  jetq job files ID --get out
  jetq job cancel ID"""
)
def command() -> None:
    """List, show, wait for and cancel jobs; read what they printed and fetch what they left."""


command.add_command(logs)
command.add_command(files)
command.add_command(preview)


@command.command("list", epilog="Example: jetq job list --state RUNNING --limit 20")
@click.option("--state", type=click.Choice([s.value for s in JobState], case_sensitive=False), help="Only these.")
@click.option("--kind", type=click.Choice(KINDS), help="Only these.")
@click.option("--name", metavar="TASK", shell_complete=task_names, help="Only jobs of this task.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, help="Look at the newest N, and streams.  [default: 1000]"
)
@json_option
@broker_options
def list_jobs(
    *,
    state: str | None,
    kind: str | None,
    name: str | None,
    limit: int,
    as_json: bool,
    where: Where,
) -> None:
    """List the newest jobs, newest first, finished ones included, and all streams that run or wait."""
    newest = where.ledger().jobs(limit)
    asked = (state, kind, name)
    rows = [
        row
        for row in newest
        if all(a in (None, b) for a, b in zip(asked, (row.state, row.kind, row.name), strict=True))
    ]
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    columns = ("id", "task", "state", "node", "submitted", "took", "outcome")
    none = f"none of the newest {len(newest)} jobs" if newest else "no jobs; send one with `jetq submit NAME`"
    spare = ("took", "submitted", *(("task",) if all(row.kind == "stream" for row in rows) else ()))
    print_table(columns, (_cells(row) for row in rows), empty=none, spare=spare)


@command.command("show", epilog="Example: jetq job show ID --json")
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@json_option
@broker_options
def show(*, job_id: str, as_json: bool, where: Where) -> None:
    """Show one job: where it is, why, and every attempt so far."""
    row = where.ledger().job(job_id)
    if row is None:
        raise NoSuchJob(job_id)
    if as_json:
        print_json(row.as_json())
        return
    told = row.history and row.history[-1].get("why") == row.reason  # the story below says it
    print_fields(
        [
            ("id", row.id),
            ("camera" if row.stream else "name" if row.kind == "gang" else "task", row.name),
            ("kind", row.kind),
            ("state", row.state),
            ("nodes" if row.kind == "gang" else "node", row.nodes),
            ("attempts", f"{row.attempts} charged" if row.attempts else None),
            ("submitted", moment(row.submitted_at)),
            ("started", moment(row.started_at)),
            ("finished", moment(row.finished_at)),
            ("took", duration(_took_s(row))),
            ("result", None if row.result is None else brief(row.result, most=2000)),
            *(fields(row) if row.kind == "stream" else ()),
            ("error", row.error),
            ("reason", None if told else row.reason),
            ("expected", moment(row.expected_at)),
            ("progress", None if row.progress is None else progress_of(row.progress)),
            ("exit code", row.exit_code),
        ]
    )
    if row.tail:
        print("\nlast lines of the rank that failed first:")
        print("".join(f"  {line}\n" for line in row.tail), end="")
    if row.history:
        print()
        print_table(("at", "what", "node", "why"), _story(row), empty="")


@command.command("wait", epilog="Example: jetq job wait ID --timeout 60 && echo done")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=job_ids)
@click.option("--timeout", type=float, metavar="S", help="Wait for at most S seconds, for all of them.")
@json_option
@broker_options
def wait(
    *,
    job_ids: tuple[str, ...],
    timeout: float | None,
    as_json: bool,
    where: Where,
) -> int:
    """Wait until jobs have ended and print their results. Exit code 1 if one failed, was cancelled or is not done.

    Of several, all are waited for, and the exit code is that of the first that did not succeed. The stream of a camera
    ends only if it fails, or somebody cancels it.
    """
    ledger = where.ledger()
    if len(job_ids) == 1:
        return finish(Job(ledger, job_ids[0]), timeout, as_json=as_json)
    jobs = [Job(ledger, job_id) for job_id in job_ids]
    for job in jobs:
        job.row()  # an id that nobody has is told at once
    began_s, code = time.monotonic(), 0
    for job in jobs:
        left_s = None if timeout is None else max(0.0, began_s + timeout - time.monotonic())
        try:
            ended = finish(job, left_s, as_json=as_json)
        except (JobFailed, JobCancelled, WaitTimeout) as exc:
            say(f"jetq: {exc}")
            ended = exc.exit_code
        code = code or ended
    return code


@command.command("cancel", epilog="Example: jetq job cancel ID --reason 'wrong camera'")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=job_ids)
@click.option("--reason", default="cancelled from the command line", help="Kept in the job's record.")
@json_option
@broker_options
def cancel(
    *,
    job_ids: tuple[str, ...],
    reason: str,
    as_json: bool,
    where: Where,
) -> None:
    """Cancel jobs.

    What has not started ends at once; what runs is killed by its node.
    """
    ledger = where.ledger()
    for job_id in job_ids:
        row = ledger.cancel(job_id, reason)
        if as_json:
            print_json(row.as_json())
            continue
        late = ", it had ended before" if row.state != JobState.CANCELLED.value else ""
        print(f"{row.id} {row.state}{late if row.ended else _ASKED.get(row.kind, ', its node is asked to kill it')}")


def finish(job: Job, timeout: float | None, *, as_json: bool) -> int:
    """Wait for a job, print its result (or its whole row as JSON) and return the exit code.

    Raises:
        JobFailed, JobCancelled: how it ended, where the row is not printed.
    """
    row = job.wait(timeout)
    good = row.state == JobState.SUCCEEDED.value
    if as_json:
        print_json(row.as_json())
    elif good and not row.result_kept:
        say(f"job {row.id} is done, but {row.reason}")
    elif good:
        print(row.result if isinstance(row.result, str) else json.dumps(row.result, default=str))
    elif row.state == JobState.FAILED.value:
        raise JobFailed(row.id, row.error or row.reason or "no error was kept")
    else:
        raise JobCancelled(row.id, row.reason or "")
    return 0 if good else 1


def _cells(row: JobRow) -> Sequence[object]:
    shown = row.error or row.reason
    if row.kind == "stream":
        shown = outcome(row)
    elif row.state == JobState.SUCCEEDED.value:
        shown = brief(row.result) if row.result_kept else row.reason
    return (
        row.id,
        named(row),
        row.state,
        row.nodes,
        moment(row.submitted_at),
        duration(_took_s(row)),
        brief(shown or "", most=_STREAM_WORDS if row.kind == "stream" else _WORDS),
    )


def _story(row: JobRow) -> list[Sequence[object]]:
    """Return what happened to a job that was lost or moved: from its submission to its last run and its end."""
    told = [(moment(h.get("at")), h.get("what"), h.get("node"), h.get("why")) for h in row.history]
    begun = row.started_at is not None and row.kind == "task"  # the story of the others has each of their starts
    last = [(moment(row.started_at), "started", row.nodes, "")] if begun else []
    end = [(moment(row.finished_at), row.state, row.nodes, "")] if row.ended else []
    return [(moment(row.submitted_at), "submitted", "", ""), *told, *last, *end]


def _took_s(row: JobRow) -> float | None:
    if row.started_at is None or row.finished_at is None:
        return None
    return row.finished_at - row.started_at
