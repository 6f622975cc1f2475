"""What is shown of a gang while somebody is attached: its ranks' output on stdout, all talk on stderr."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from jetq.cli.format import brief, metrics_of, moment, print_json, say
from jetq.model.job import JobRow, JobState
from jetq.model.members import GangLine
from jetq.service.following import Look, as_object, labelled

#: A gang that waits no longer than this (s) does not wait: nobody has looked at it yet.
QUICK_S = 0.5
#: What passes in a reason; a pipe gets no line for each second of it.
_TIME = re.compile(r"\b[\d.]+ (s|min|h)\b")
_WORDS = {
    JobState.QUEUED.value: "waits",
    JobState.RESERVED.value: "has its nodes",
    JobState.PREPARING.value: "prepares",
    JobState.RUNNING.value: "runs",
}


class Footer:
    """The last line of a terminal, written again and again. Nothing of it is ever seen on a pipe."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._live: Live | None = None
        self.is_shown = self._console.is_terminal

    def show(self, what: RenderableType) -> None:
        """Put something there."""
        if self.is_shown and self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        if self._live is not None:
            self._live.update(what, refresh=True)

    def hide(self) -> None:
        """Take it away, so that something can be printed there."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class View:
    """Shows what one look after another finds."""

    def __init__(self, job_id: str, *, as_json: bool = False) -> None:
        self._id = job_id
        self._as_json = as_json
        self._footer = Footer()
        self._bar: tuple[Progress, TaskID] | None = None
        self._began_s = time.monotonic()
        self._said = ""
        self._told: int | None = None  # events of its history that were there at the last look
        self._away = False

    @contextmanager
    def open(self) -> Iterator[View]:
        """Show, and leave the terminal as it was."""
        try:
            yield self
        finally:
            self._footer.hide()

    def show(self, look: Look) -> None:
        """Show one look."""
        if look.away and not self._away:
            self.talk("the broker does not answer; the gang goes on, and so does this, for 30 s")
        self._away = look.away
        if look.missed:
            self.talk(f"{look.missed} lines came too fast to be shown; all are in: jetq job logs {self._id}")
        self._state(look.row)
        self._print(look.lines)
        self._progress(look.row)

    def talk(self, text: str) -> None:
        """Say something to the person."""
        self._footer.hide()
        sys.stdout.flush()
        say(f"jetq: {text}")

    def _state(self, row: JobRow) -> None:
        """Say where it is, once; a wait whose reason changes is one line of a terminal, and one each on a pipe."""
        if row.ended:
            self._footer.hide()
            return
        self._losses(row)
        text = f"{_WORDS.get(row.state, row.state)}{_where(row)}"
        waits = row.state == JobState.QUEUED.value
        if waits and time.monotonic() - self._began_s < QUICK_S:
            return
        if waits and self._footer.is_shown:
            self._footer.show(Text(f"{text}{_expected(row)}", no_wrap=True, overflow="ellipsis"))
        elif (steady := _TIME.sub("", text)) != self._said:
            self._said = steady
            self.talk(text)

    def _losses(self, row: JobRow) -> None:
        """Say why it has to start again, where it has."""
        before, self._told = self._told, len(row.history)
        if before is not None:
            ended = [event for event in row.history[before:] if event.get("what") in ("ran", "left")]
            for why in dict.fromkeys(str(event["why"]) for event in ended if event.get("why")):
                self.talk(why)

    def _print(self, lines: Sequence[GangLine]) -> None:
        if not lines:
            return
        self._footer.hide()
        for line in lines:
            if self._as_json:
                print_json(as_object(line))
            else:
                print(labelled(line))
        sys.stdout.flush()

    def _progress(self, row: JobRow) -> None:
        if row.progress is None or row.state != JobState.RUNNING.value or not self._footer.is_shown:
            return
        if self._bar is None:
            bar = Progress(
                TextColumn("step"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[metrics]}"),
                console=Console(file=sys.stderr),
                expand=True,
            )
            self._bar = bar, bar.add_task("", total=None, metrics="")
        bar, task = self._bar
        step, total = row.progress.get("step"), row.progress.get("total")
        bar.update(task, completed=step, total=total, metrics=brief(metrics_of(row.progress)))
        self._footer.show(bar.get_renderable())


def say_end(row: JobRow) -> None:
    """Say how a gang ended, where it did not end well: its root cause, and the last lines of the rank that failed."""
    if row.state == JobState.SUCCEEDED.value:
        return
    why = row.error or row.reason or "no reason was kept"
    say(f"jetq: the gang {'failed' if row.state == JobState.FAILED.value else 'was cancelled'}: {why}")
    if row.tail:
        say("jetq: the last lines of the rank that failed first:")
        for line in row.tail:
            say(f"    {line}")
    say(f"jetq: whole logs: jetq job logs {row.id}")


def _where(row: JobRow) -> str:
    if row.state == JobState.QUEUED.value:
        return f": {row.reason}" if row.reason else ""
    return f" on {', '.join(row.nodes)}" if row.nodes else ""


def _expected(row: JobRow) -> str:
    return "" if row.expected_at is None else f" (at {moment(row.expected_at)})"
