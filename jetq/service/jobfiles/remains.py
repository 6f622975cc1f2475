"""What a job has left on the nodes that ran it: its output, line by line, and its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from jetq import ids
from jetq.errors import BrokerDown, FilesAway, NoSuchJob, UsageError
from jetq.model.job import JobRow
from jetq.model.limits import BROKER_PATIENCE_S
from jetq.service.jobfiles.folders import FileRow
from jetq.service.jobfiles.log import RunLog
from jetq.service.jobfiles.remote import NodePort, NotThere, PortFault
from jetq.store.base import Reader

T = TypeVar("T")
#: Time between two looks of whoever follows a log (s).
FOLLOW_S = 0.3


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a job's output."""

    node: str
    attempt: int  # 1 is the first
    started_at: float  # of this run: tells runs of one attempt apart (a retry, a move)
    text: str  # without its line end

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {"node": self.node, "attempt": self.attempt, "started_at": self.started_at, "line": self.text}


@dataclass(frozen=True, slots=True)
class NodeFile:
    """One file, and the node it lies on."""

    node: str
    file: FileRow
    got: Path | None = None  # where it was copied to

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {"node": self.node, **self.file.as_json(), "got": None if self.got is None else str(self.got)}


@dataclass(slots=True)
class _Cursor:
    """How far one run's output has been read."""

    node: str
    run: RunLog
    offset: int = 0
    begun: bytes = b""  # a line whose end has not come


class Remains:
    """What one job has left. A node that cannot be asked is told once and remembered; the others are still read."""

    def __init__(self, reader: Reader, job_id: str, tell: Callable[[str], None] = lambda _text: None) -> None:
        """``tell`` takes one line for each node that cannot be asked, as soon as that is known."""
        self.away: dict[str, str] = {}  # node -> why it cannot be asked
        self._reader = reader
        self._job_id = job_id
        self._tell = tell
        self._patience_s = 0.0
        self._cursors: dict[tuple[str, str], _Cursor] = {}

    def lines(self, *, follow: bool = False, attempt: int | None = None) -> Iterator[LogLine]:
        """Yield the output of all runs, in their order.

        Args:
            follow: go on until the job has ended, wherever it moves.
            attempt: only this one; 1 is the first.

        Raises:
            NoSuchJob: the ledger does not know it. BrokerDown: for 30 s, while following.
        """
        self._patience_s = BROKER_PATIENCE_S if follow else 0.0
        over = False
        while not over:
            row = self._row()
            over = row.ended or not follow
            runs = self._look(row, attempt)
            for cursor in runs:
                yield from self._read(cursor, last=over or cursor is not runs[-1])
            if not over:
                time.sleep(FOLLOW_S)

    def files(self) -> list[NodeFile]:
        """Return the files on all nodes that ran it, in the order of its runs.

        Raises:
            NoSuchJob: the ledger does not know it.
        """
        found = []
        for node in ran_on(self._row()):
            rows = self._ask(node, lambda port: port.files(self._job_id))
            found += [NodeFile(node, row) for row in rows or ()]
        return found

    def get(self, into: Path) -> Iterator[NodeFile]:
        """Copy all files: those of the last node right into the folder, those of earlier ones into one named like it.

        Raises:
            FilesAway: a name leads out of the folder; neither it nor what follows it is copied.
            UsageError: the folder cannot be written.
        """
        last = ran_on(self._row())[-1:]
        for found in self.files():
            place = into if [found.node] == last else into / ids.node_name(found.node)
            target = _inside(place, found.file.name, found.node)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.parent.resolve().is_relative_to(into.resolve()):
                    raise UsageError(f"{target} leads out of {into} by a link; choose another folder")
                got = self._ask(
                    found.node, partial(NodePort.copy, job_id=self._job_id, name=found.file.name, target=target)
                )
            except OSError as exc:
                raise UsageError(f"cannot write {target}: {exc.strerror}; choose another folder") from exc
            if got is not None:
                yield replace(found, got=got)
            elif found.node not in self.away:  # of a stream that goes on, the oldest go
                self._tell(f"{found.file.name} is not on node {found.node} any more")

    def preview(self) -> tuple[str, bytes]:
        """Return what a stream sees now, boxes drawn in (JPEG), and the node that it runs on.

        Raises:
            NoSuchJob: the ledger does not know it. UsageError: it is no stream.
            FilesAway: it does not run now, or its node cannot be asked.
        """
        return self._viewed(partial(NodePort.preview, job_id=self._job_id))

    def live(self) -> tuple[str, str]:
        """Return where a stream shows itself (MJPEG), and the header that opens it, which is a secret.

        Raises:
            NoSuchJob, UsageError, FilesAway: as ``preview``.
        """
        return self._viewed(partial(NodePort.live, job_id=self._job_id))[1]

    def _viewed(self, question: Callable[[NodePort], T]) -> tuple[str, T]:
        row = self._row()
        if row.kind != "stream":
            raise UsageError(f"only a stream can be looked at, and {self._job_id} is a {row.kind}")
        why = [] if row.nodes else [row.reason or "it runs on no node now"]
        for node in row.nodes:
            try:
                return node, question(NodePort(self._reader.door(node)))
            except PortFault as exc:
                why.append(f"node {node} {exc}")
        raise FilesAway(f"there is nothing to see of {self._job_id}: {'; '.join(why)}")

    def _look(self, row: JobRow, attempt: int | None) -> list[_Cursor]:
        """Ask which runs there are. A node that was away is asked again only while the job is there."""
        for node in ran_on(row):
            if node in self.away and node not in row.nodes:
                continue
            for run in self._ask(node, lambda port: port.runs(self._job_id)) or ():
                if attempt in (None, run.attempt):
                    self._cursors.setdefault((node, run.run), _Cursor(node, run)).run = run
        return sorted(self._cursors.values(), key=lambda cursor: (cursor.run.attempt, cursor.run.started_at))

    def _read(self, cursor: _Cursor, *, last: bool) -> Iterator[LogLine]:
        """Yield the lines that have come since the last time. ``last``: a line without its end is one, too."""
        if cursor.run.end > cursor.offset:
            asked = partial(NodePort.log_from, job_id=self._job_id, run=cursor.run.run, offset=cursor.offset)
            start, data = self._ask(cursor.node, asked) or (cursor.offset, b"")
            cursor.offset = start + len(data)
            *whole, cursor.begun = (cursor.begun + data).split(b"\n")
            for text in whole:
                yield _line(cursor, text)
        if last and cursor.begun:
            yield _line(cursor, cursor.begun)
            cursor.begun = b""

    def _ask(self, node: str, question: Callable[[NodePort], T]) -> T | None:
        """Ask a node. None: it cannot be asked, or has not what it is asked for."""
        answer: T | None
        try:
            answer = question(NodePort(self._patiently(lambda: self._reader.door(node))))
        except NotThere:
            answer = None
        except PortFault as exc:
            states = {row.name: row.state for row in self._patiently(self._reader.nodes)}
            state = states.get(node, "forgotten")
            why = f"node {node} {exc}" if state == "up" else f"node {node} ({state}) {exc}"
            if node not in self.away:
                self._tell(why)
            self.away[node] = why
            return None
        self.away.pop(node, None)
        return answer

    def _row(self) -> JobRow:
        row = self._patiently(lambda: self._reader.job(self._job_id))
        if row is None:
            raise NoSuchJob(self._job_id)
        return row

    def _patiently(self, question: Callable[[], T]) -> T:
        """Ask the ledger, for as long as patience lasts."""
        end_s = time.monotonic() + self._patience_s
        while True:
            try:
                return question()
            except BrokerDown:
                if time.monotonic() >= end_s:
                    raise
                time.sleep(FOLLOW_S)


def ran_on(row: JobRow) -> list[str]:
    """Return the nodes that ran a job, in the order of their last runs. A stream ran on all that its story names."""
    is_stream = row.kind == "stream"
    told = [event.get("node") or "" for event in row.history if is_stream or event.get("ran")]
    nodes = [node for names in told for node in str(names).split()]
    if is_stream:
        nodes += reversed(row.nodes)  # its owner is named first
    elif row.started_at is not None:
        nodes += row.nodes
    return list(reversed(dict.fromkeys(node for node in reversed(nodes) if node)))


def _inside(folder: Path, name: str, node: str) -> Path:
    """Return where a file of that name goes.

    Raises:
        FilesAway: the name leads out of the folder: what answers is no node of ours.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FilesAway(f"node {node} names a file {name!r}, which leads out of the folder; it is not copied")
    return folder.joinpath(*parts)


def _line(cursor: _Cursor, text: bytes) -> LogLine:
    shown = text.removesuffix(b"\r").decode(errors="replace")
    return LogLine(cursor.node, cursor.run.attempt, cursor.run.started_at, shown)
