"""One piece of work, seen by somebody who has sent it or knows its id."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jetq.errors import (
    BrokerDown,
    FilesAway,
    JobCancelled,
    JobFailed,
    NoSuchJob,
    PublishRefused,
    ResultNotKept,
    UsageError,
    WaitTimeout,
)
from jetq.model.job import JobRow, JobState
from jetq.model.limits import BROKER_PATIENCE_S
from jetq.service.following import follow as live
from jetq.service.following import labelled
from jetq.service.jobfiles.remains import NodeFile, Remains
from jetq.store.base import Placed, Reader

#: The wait between two looks at a job grows from the first to the second (s).
FIRST_LOOK_S, LAST_LOOK_S = 0.02, 0.5


class Job:
    """One job, wherever it is. Every read asks the ledger."""

    def __init__(self, store: Reader, job_id: str, *, known: bool = False) -> None:
        self.id = job_id
        self.known = known  # the ledger had it already: this submit sent nothing
        self._store = store

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def row(self) -> JobRow:
        """Return all that is known of it.

        Raises:
            NoSuchJob: its record has expired.
        """
        row = self._store.job(self.id)
        if row is None:
            raise NoSuchJob(self.id)
        return row

    @property
    def state(self) -> JobState:
        """Where it is now."""
        return JobState(self.row().state)

    def wait(self, timeout: float | None = None) -> JobRow:
        """Return its row once it has ended, however it ended.

        Args:
            timeout: s; None waits for as long as it takes.

        Raises:
            WaitTimeout: it has not ended by then; it goes on.
            BrokerDown: the broker has been away for 30 s.
            UsageError: the timeout is no number.
        """
        if timeout is not None and math.isnan(timeout):
            raise UsageError(
                "timeout must be a number of seconds, not nan; leave it out to wait for as long as it takes"
            )
        started_s = seen_s = time.monotonic()
        look_s, state = FIRST_LOOK_S, "unknown"
        while True:
            try:
                row = self.row()
                seen_s, state = time.monotonic(), row.state
                if row.ended:
                    return row
            except BrokerDown:
                if time.monotonic() - seen_s > BROKER_PATIENCE_S:
                    raise
            waited_s = time.monotonic() - started_s
            if timeout is not None and waited_s >= timeout:
                raise WaitTimeout(self.id, waited_s, state)
            time.sleep(look_s if timeout is None else min(look_s, timeout - waited_s))
            look_s = min(look_s * 1.4, LAST_LOOK_S)

    def result(self, timeout: float | None = None) -> Any:
        """Return what the task returned, once it has.

        Raises:
            JobFailed: it ended FAILED; the message holds its error.
            JobCancelled: somebody cancelled it.
            ResultNotKept: it SUCCEEDED, but what it returned is too large for the ledger.
            WaitTimeout: it has not ended within ``timeout`` (s).
        """
        row = self.wait(timeout)
        if row.state == JobState.FAILED.value:
            raise JobFailed(self.id, row.error or row.reason or "no error was kept")
        if row.state == JobState.CANCELLED.value:
            raise JobCancelled(self.id, row.reason or "")
        if not row.result_kept:
            raise ResultNotKept(self.id, row.reason or "its result was not kept")
        return row.result

    def cancel(self, reason: str = "cancelled by its owner") -> JobRow:
        """Cancel it: at once if nothing runs, else its node is asked to kill it."""
        return self._store.cancel(self.id, reason)

    def logs(self, *, follow: bool = False, attempt: int | None = None) -> Iterator[str]:
        """Yield what it printed and logged, line by line, from every node that ran it.

        Args:
            follow: go on until it has ended, wherever it moves. Of a gang that runs: what its ranks write, as they do.
            attempt: only this one; 1 is the first.

        Raises:
            FilesAway: after the last line: a node that ran it could not be asked.
        """
        row = self.row() if follow and attempt is None else None
        if row is not None and row.kind == "gang" and not row.ended:
            for look in live(self._store, self.id):
                yield from map(labelled, look.lines)
            return
        remains = Remains(self._store, self.id)
        for line in remains.lines(follow=follow, attempt=attempt):
            yield line.text
        _complete(remains)

    def files(self, into: Path | str | None = None) -> list[NodeFile]:
        """Return what it left in ``JETQ_FILES_DIR`` on every node that ran it.

        Args:
            into: a folder to copy the files to: those of the last node go right into it.

        Raises:
            FilesAway: a node that ran it could not be asked; the files of the others have been copied.
            UsageError: the folder cannot be written.
        """
        remains = Remains(self._store, self.id)
        found = remains.files() if into is None else list(remains.get(Path(into)))
        _complete(remains)
        return found


def sent(store: Reader, placed: Placed) -> Job:
    """Return the job that was published.

    Raises:
        PublishRefused: it was not taken.
    """
    if placed.verdict == "refused":
        raise PublishRefused(placed.job_id, placed.why)
    return Job(store, placed.job_id, known=placed.verdict in ("same", "done"))


def _complete(remains: Remains) -> None:
    if remains.away:
        raise FilesAway("; ".join(remains.away.values()))
