"""What every benchmark prints: ratios with their spread, as a table for people and as JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over repeats."""

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the spread of at least one value."""
        sorted_ = sorted(values)
        return cls(median(sorted_), sorted_[0], sorted_[-1], len(sorted_))

    @classmethod
    def quartiles(cls, values: Iterable[float]) -> Spread:
        """Return the median with the quartiles as its range: for many short rounds on a machine that others use."""
        sorted_ = sorted(values)
        edge = len(sorted_) // 4
        return cls(median(sorted_), sorted_[edge], sorted_[-1 - edge], len(sorted_))

    def __str__(self) -> str:
        """Show three digits, and the range where there is one."""
        if self.repeats == 1:
            return f"{self.median:.3g}"
        return f"{self.median:.3g} [{self.low:.3g} {self.high:.3g}]"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a figure may be (DESIGN's budget) and what it is."""

    what: str
    figure: Spread
    limit: float
    at_most: bool = True  # False: the limit is the least

    @property
    def kept(self) -> bool:
        """Whether the median keeps the limit."""
        return self.figure.median <= self.limit if self.at_most else self.figure.median >= self.limit


class Report:
    """Tables and budget lines of one benchmark; prints as it goes, and keeps all for the JSON."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self._console = Console(width=None if os.isatty(1) else 140)
        self._tables: list[dict[str, Any]] = []
        self._budgets: list[Budget] = []
        self._console.print(f"[bold]{name}[/bold]: {title}")

    def say(self, line: str) -> None:
        """Print one line."""
        self._console.print(line, style="dim", highlight=False)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table and keep it. Cells: text, numbers or :class:`Spread`."""
        kept = [list(row) for row in rows]
        shown = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            shown.add_column(column, justify="right" if number else "left")
        for row in kept:
            shown.add_row(*(_cell(x) for x in row))
        self._console.print(shown)
        cells = [[asdict(x) if isinstance(x, Spread) else x for x in row] for row in kept]
        self._tables.append({"title": title, "columns": list(columns), "rows": cells})

    def budget(self, what: str, figure: Spread, limit: float, *, at_most: bool = True) -> None:
        """Keep one line of the budget; a miss is shown, never an error: the figures are the point."""
        self._budgets.append(Budget(what, figure, limit, at_most))

    def close(self, path: Path | None = None) -> dict[str, Any]:
        """Print the budget lines; return everything as plain values, and write them to ``path``."""
        for b in self._budgets:
            word, sign = ("[green]kept[/green]", "<=" if b.at_most else ">=") if b.kept else ("[red]missed[/red]", "")
            limit = f"{sign or ('<=' if b.at_most else '>=')} {b.limit:g}"
            self._console.print(f"  {word:>6}  {b.what}: {b.figure} (budget {limit})", highlight=False)
        facts = {
            "benchmark": self.name,
            "machine": {"cores": os.cpu_count(), "arch": platform.machine(), "python": platform.python_version()},
            "tables": self._tables,
            "budget": [asdict(b) | {"kept": b.kept} for b in self._budgets],
        }
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        return facts


def options(text: str | None, argv: Sequence[str] | None, *, repeats: int, add: Any = None) -> argparse.Namespace:
    """Read the flags that every benchmark has. ``add`` may add more to the parser."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"repeats of each figure (default {repeats})")
    parser.add_argument("--quick", action="store_true", help="a smoke run: its figures mean nothing")
    if add:
        add(parser)
    found = parser.parse_args(argv)
    if found.quick:
        found.repeats = 1
    return found


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile (nearest rank)."""
    return sorted(values)[max(0, math.ceil(0.99 * len(values)) - 1)]


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return math.fsum(values) / len(values)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
