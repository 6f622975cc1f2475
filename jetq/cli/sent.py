"""What is printed of a job, stream or gang that was just sent."""

from __future__ import annotations

from jetq.cli.format import print_json, say
from jetq.job import Job


def print_sent(job: Job, *, as_json: bool, again: str = "it was there already, nothing was sent") -> None:
    """Print the id of a job that was just sent, and talk of its state; or its whole row as JSON.

    Args:
        again: what is said where the ledger had it before.
    """
    row = job.row()
    if as_json:
        print_json(row.as_json())
        return
    print(job.id)
    known = f"{again}: " if job.known else ""
    on = f" on {' '.join(row.nodes)}" if row.nodes else ""
    fresh = row.kind != "task" and not job.known  # why it waits is not known before the leader has looked
    why = f" ({row.reason})" if row.reason and not row.nodes and not fresh else ""
    say(f"{known}{row.state}{on}{why}; ask with `jetq job show {job.id}`")
