"""Fan the chunks out over the cluster, wait for all of them, merge in order, write the outputs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jetq.errors import BrokerDown, JetqError, JobFailed
from jetq.model.job import JobRow, JobState
from jetq.model.limits import BROKER_PATIENCE_S
from jetq.video import served
from jetq.video.chunks import Chunk
from jetq.video.fileserver import FileServer
from jetq.video.outputs import Done, write
from jetq.video.place import Place, shared_name
from jetq.video.report import Piece, Report
from jetq.video.study import Prepared, Run

#: The task that does the work.
TASK = "video.analyze"
#: Jobs looked at in one turn, and the pause between two turns (s): some 600 questions a second at most.
LOOKS_PER_TURN, PAUSE_S = 32, 0.05


class Handle(Protocol):
    """A job that was submitted."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    def row(self) -> JobRow:
        """Return where it stands."""
        ...

    def cancel(self, reason: str = ...) -> JobRow:
        """End it."""
        ...


#: Submits ``video.analyze`` once per mapping of keyword arguments; all or none, in this order.
Submit = Callable[[Sequence[Mapping[str, Any]]], Sequence[Handle]]


@dataclass(frozen=True, slots=True)
class Crew:
    """Who does the work, and how it reaches the files."""

    submit: Submit
    slots: int = 1  # of all nodes: sets how fine the clips are cut
    host: str = "127.0.0.1"  # address under which nodes reach this machine
    shared: Path | None = None  # folder that all nodes mount


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    chunks_done: int
    chunks: int
    frames_done: int
    frames: int


@dataclass(frozen=True, slots=True)
class _Task:
    """One chunk on its way."""

    run: int
    chunk: Chunk
    job: Handle


def analyze_files(prepared: Prepared, crew: Crew, *, progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Analyse all files of a study on the cluster and write what was found.

    Raises:
        JobFailed: a chunk failed; the others were cancelled and nothing was written.
        BrokerDown: the broker has been away for 30 s; the same.
    """
    started_s = time.monotonic()
    plans = prepared.chunks(crew.slots)
    files = [run.clip.path for run in prepared.runs]
    models = [prepared.model] if prepared.model else []
    with FileServer([*files, *models], host=crew.host) as server:
        options = dict(prepared.study.options)
        for model in models:
            options["model"] = served.as_option(model, _place(crew, server, model, model.stat().st_size))
        calls = [
            _call(prepared, crew, server, run, chunk, options)
            for run, chunks in zip(prepared.runs, plans, strict=True)
            for chunk in chunks
        ]
        where = [(n, chunk) for n, chunks in enumerate(plans) for chunk in chunks]
        jobs = crew.submit(calls)
        tasks = [_Task(run, chunk, job) for (run, chunk), job in zip(where, jobs, strict=True)]
        results = _gather(tasks, prepared.runs, progress)
        sent_bytes = server.sent_bytes
    done: list[list[Done]] = [[] for _ in prepared.runs]
    for task in tasks:
        row = results[task.job.id]
        done[task.run].append(Done(task.chunk, row.result, _piece(row)))
    return write(prepared, done, wall_s=time.monotonic() - started_s, sent_bytes=sent_bytes)


def _call(
    prepared: Prepared, crew: Crew, server: FileServer, run: Run, chunk: Chunk, options: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "place": _place(crew, server, run.clip.path, run.clip.size_bytes).as_json(),
        "chunk": chunk.as_json(),
        "analyzer": prepared.study.analyzer,
        "options": options,
    }


def _place(crew: Crew, server: FileServer, path: Path, size_bytes: int) -> Place:
    return Place(path.name, server.url(path), size_bytes, shared_name(path, crew.shared))


def _gather(tasks: Sequence[_Task], runs: Sequence[Run], progress: Callable[[Progress], None]) -> dict[str, JobRow]:
    """Wait until every job has succeeded; if one does not, or the caller gives up, cancel what is left."""
    waiting = deque(tasks)
    rows: dict[str, JobRow] = {}
    frames = sum(task.chunk.n_frames for task in tasks)
    frames_done = 0
    try:
        while waiting:
            for task, row in _turn(waiting):
                if row.state != JobState.SUCCEEDED.value or not row.result_kept:
                    raise _failure(task, row, runs[task.run])
                rows[row.id] = row
                frames_done += task.chunk.n_frames
                progress(Progress(len(rows), len(tasks), frames_done, frames))
            if waiting:
                time.sleep(PAUSE_S)
    finally:
        _cancel(waiting)
    return rows


def _turn(waiting: deque[_Task]) -> list[tuple[_Task, JobRow]]:
    """Look at some jobs, those that were not looked at for longest first; return the ended ones."""
    ended: list[tuple[_Task, JobRow]] = []
    for _ in range(min(len(waiting), LOOKS_PER_TURN)):
        task = waiting[0]
        row = _patiently(task.job.row)
        waiting.popleft()
        if row.ended:
            ended.append((task, row))
        else:
            waiting.append(task)
    return ended


def _patiently(ask: Callable[[], JobRow]) -> JobRow:
    """Ask until the broker answers, for ``BROKER_PATIENCE_S``: work goes on meanwhile."""
    until_s = time.monotonic() + BROKER_PATIENCE_S
    while True:
        try:
            return ask()
        except BrokerDown:
            if time.monotonic() > until_s:
                raise
            time.sleep(PAUSE_S * 10)


def _cancel(waiting: deque[_Task]) -> None:
    try:
        for task in waiting:
            task.job.cancel("its video run ended early")
    except JetqError:
        return  # the broker is away: without their input, the rest fail by themselves


def _failure(task: _Task, row: JobRow, run: Run) -> JobFailed:
    chunk = task.chunk
    where = f"{run.clip.path.name}, frames {chunk.first_frame}-{chunk.first_frame + chunk.n_frames - 1}"
    node = f" on {row.nodes[-1]}" if row.nodes else ""
    why = row.error or row.reason or row.state.lower()
    return JobFailed(row.id, f"{where}{node}: {why.strip()}; nothing was written")


def _piece(row: JobRow) -> Piece:
    found = row.result
    finished_s = row.finished_at or 0.0
    return Piece(
        node=row.nodes[-1] if row.nodes else "?",
        n_frames=found["n_frames"],
        decoded=found["decoded"],
        took_s=found["took_s"],
        started_s=row.started_at or finished_s - found["took_s"],
        finished_s=finished_s,
    )
