"""How verbs print: results to stdout as a table or JSON, talk to stderr."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

#: Columns of a table that goes to a file or pipe: nothing is cut.
_PIPE_WIDTH = 500
#: Between two columns of a table.
_GAP = 2
#: The last column of a table keeps so many characters on a narrow terminal.
_LEAST = 12
#: What stands to the right in its column: a number, a percentage, or nothing.
_NUMBER = re.compile(r"-|[\d.]+%?")
#: The colour of a state.
_COLOURS = {
    "up": "green",
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "FINISHING": "cyan",
    "starting": "yellow",
    "draining": "yellow",
    "stopping": "yellow",
    "stale": "yellow",
    "suspect": "yellow",
    "failing": "yellow",
    "drained": "yellow",
    "WAITING": "yellow",
    "QUEUED": "yellow",
    "gone": "red",
    "dead": "red",
    "FAILED": "red",
    "CANCELLED": "red",
}


def say(text: str) -> None:
    """Tell the person something that is not the result."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print one JSON value on one line; what JSON cannot hold (NaN) becomes null."""
    print(json.dumps(_finite(value), separators=(", ", ": "), allow_nan=False, default=str))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, spare: Sequence[str] = ()
) -> None:
    """Print a table; ``empty`` goes to stderr where there are no rows. Only the last column is ever folded.

    Args:
        columns: their names.
        rows: their cells; columns of numbers stand to the right.
        spare: columns to leave out, the first one first, while a terminal is too narrow.
    """
    given = [list(row) for row in rows]
    if not given:
        say(empty)
        return
    out = console()
    texts = [[Text.from_markup(cell(value)) for value in row] for row in given]
    widths = [max(len(name), *(row[at].cell_len for row in texts)) for at, name in enumerate(columns)]
    shown = _fitting(columns, widths, spare, out.width)
    last = shown[-1]
    before = sum(widths[at] + _GAP for at in shown[:-1])
    widths[last] = min(widths[last], max(_LEAST, out.width - before))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at in shown:
        right = all(_NUMBER.fullmatch(row[at].plain) for row in texts)
        table.add_column(
            columns[at], width=widths[at], no_wrap=at != last, overflow="fold", justify="right" if right else "left"
        )
    for row in texts:
        table.add_row(*(row[at] for at in shown))
    out.width = max(out.width, before + widths[last])  # too narrow even so: the terminal itself breaks the lines
    out.print(table)


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other; unknown ones are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            table.add_row(name, cell(value))
    console().print(table)


def console() -> Console:
    """Return a console on stdout as it is now."""
    plain = not sys.stdout.isatty()
    return Console(file=sys.stdout, width=_PIPE_WIDTH if plain else None, soft_wrap=False, highlight=False)


def cell(value: object) -> str:
    """Return a value as a cell shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return escape(" ".join(str(part) for part in value)) or "-"
    text = str(value)
    return f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else escape(text)


def _fitting(columns: Sequence[str], widths: Sequence[int], spare: Sequence[str], room: int) -> list[int]:
    """Return which columns are shown: all, less as many spare ones as it takes for the others to fit."""
    shown = list(range(len(columns)))
    for name in spare:
        if sum(widths[at] + _GAP for at in shown[:-1]) + min(widths[shown[-1]], _LEAST) <= room:
            break
        shown.remove(columns.index(name))
    return shown


def percent(fraction: float | None) -> str | None:
    """Return 0..1 as a percentage."""
    return None if fraction is None else f"{fraction * 100:.0f}%"


def gibibytes(count: float | None) -> str | None:
    """Return bytes as GiB."""
    return None if count is None else f"{count / 2**30:.1f}G"


def moment(unix_s: float | None) -> str | None:
    """Return a time of day, with the date where it is not today."""
    if unix_s is None:
        return None
    then = time.localtime(unix_s)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M", then)


def duration(seconds: float | None) -> str | None:
    """Return a length of time: 0.25s, 12s, 3m10s, 2h05m."""
    if seconds is None:
        return None
    if seconds < 10:
        return f"{max(seconds, 0):.2f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def brief(value: Any, most: int = 60) -> str:
    """Return a value as one short line."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def metrics_of(progress: dict[str, Any]) -> str:
    """Return what a job measured, as words: ``loss 0.52, lr 0.001``."""
    measured = progress.get("metrics") or {}
    return ", ".join(f"{name} {value:.4g}" for name, value in measured.items() if isinstance(value, int | float))


def progress_of(progress: dict[str, Any]) -> str:
    """Return how far a gang is, as words: ``step 3 of 10, loss 0.52``."""
    measured = metrics_of(progress)
    return f"step {progress.get('step')} of {progress.get('total')}{', ' if measured else ''}{measured}"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value
