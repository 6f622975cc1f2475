"""The rows of a list of cameras, as TOML and CSV write them, each field with its line."""

from __future__ import annotations

import csv
import difflib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from jetq.errors import UsageError
from jetq.model.credentials import redact
from jetq.model.stream import StreamSpec

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib  # the same reader under its first name; the extra `video` brings it
    except ModuleNotFoundError:
        tomllib = None

#: The row of a CSV list that holds what rows leave open, as ``[defaults]`` does in TOML.
DEFAULTS = "defaults"
_FIELDS = tuple(field.name for field in dataclass_fields(StreamSpec))
#: Fields that no two streams share.
_OWN = frozenset({"id", "uri"})
_LISTS = frozenset({"labels", "sinks", "hot_fps"})
_NUMBERS, _WHOLE = frozenset({"cost", "stall_s"}), frozenset({"gpu", "mem_bytes"})
_HEADER = re.compile(r"\s*\[\[\s*[\"']?stream[\"']?\s*\]\]")
_SYNTAX = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One stream of a list, as it is written."""

    line: int  # where it begins; 0: unknown
    fields: Mapping[str, Any]  # defaults filled in
    lines: Mapping[str, int]  # where each field stands, as far as known
    wrong: tuple[str, ...] = ()  # that was found while it was read


def from_toml(text: str, name: str) -> list[Entry]:
    """Return the ``[[stream]]`` tables, each with ``[defaults]`` filled in.

    Raises:
        UsageError: it is no TOML, or another list.
    """
    if tomllib is None:
        raise UsageError(
            f"{name}: with Python 3.10, TOML needs jetq's `video` extra (or tomli); a CSV list needs nothing"
        )
    try:
        whole = tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{name} is no list of cameras: its values are nested too deeply") from None
    except tomllib.TOMLDecodeError as exc:
        line = _SYNTAX.search(str(exc))
        where = f":{line[1] or len(text.splitlines())}" if line else ""
        raise UsageError(f"{name}{where}: this is no TOML: {redact(_SYNTAX.sub('', str(exc)))}") from None
    for key in whole:
        if key not in ("defaults", "stream"):
            where = f"{name}:{_first_line(text, key)}"
            raise UsageError(f"{where}: a list of cameras has no {redact(key)[:40]!r}; write [defaults] and [[stream]]")
    defaults, streams = whole.get("defaults", {}), whole.get("stream", [])
    if not isinstance(defaults, dict) or not isinstance(streams, list) or not all(isinstance(s, dict) for s in streams):
        raise UsageError(f"{name}: write [defaults] for what all share, and [[stream]] before each stream")
    _check_defaults(defaults, f"{name}:{_first_line(text, DEFAULTS)}")
    places = _toml_places(text)
    if len(places) != len(streams):  # they are written in another way, and only counted
        places = [(0, {}) for _ in streams]
    return [Entry(line, defaults | stream, lines) for (line, lines), stream in zip(places, streams, strict=True)]


def _toml_places(text: str) -> list[tuple[int, dict[str, int]]]:
    """Return the line of each ``[[stream]]``, and those of its fields."""
    places: list[tuple[int, dict[str, int]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _HEADER.match(line):
            places.append((number, {}))
        elif places and (key := re.match(r"\s*[\"']?([A-Za-z_-]+)[\"']?\s*[.=]", line)):
            places[-1][1].setdefault(key[1], number)
    return places


def _first_line(text: str, key: str) -> int:
    lines = text.splitlines()
    return next(
        (n for n, line in enumerate(lines, start=1) if re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}\b", line)), 1
    )


def from_csv(text: str, name: str) -> list[Entry]:
    """Return the rows, each with those of ``defaults`` filled in where a cell is empty.

    Raises:
        UsageError: it is no CSV, or its columns are not those of a stream.
    """
    rows = list(_csv_rows(text, name))
    if not rows:
        raise UsageError(f"{name} is empty; its first line names the columns: id,uri,analyzer,fps")
    (line, header), *rest = rows
    header = [column.strip() for column in header]
    known = ("id", *_FIELDS)
    for column in header:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=1, cutoff=0.0)
            raise UsageError(f"{name}:{line}: a stream has no column {redact(column)[:40]!r}; did you mean {near[0]}?")
    if len(set(header)) < len(header) or "id" not in header:
        raise UsageError(f"{name}:{line}: the first line names the columns, each once, and id among them")
    defaults: dict[str, Any] = {}
    entries: list[Entry] = []
    for line, row in rest:
        values, wrong = _cells(header, row)
        if values.get("id") == DEFAULTS:
            if entries or defaults or wrong:
                why = "; ".join(wrong) or "the row of defaults stands once, before all others"
                raise UsageError(redact(f"{name}:{line}: {why}"))
            defaults = {key: value for key, value in values.items() if key != "id"}
            _check_defaults(defaults, f"{name}:{line}")
        else:
            entries.append(Entry(line, defaults | values, {}, tuple(wrong)))
    return entries


def _csv_rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True, skipinitialspace=True)
    line = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#"):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as exc:
        raise UsageError(f"{name}:{line}: this is no CSV: {exc}") from None


def _cells(header: list[str], row: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a row, empty ones left out, and what is wrong with them."""
    if len(row) > len(header):
        return {}, [f"the row has {len(row)} cells for {len(header)} columns; put a cell with a comma into quotes"]
    values, wrong = {}, []
    for column, cell in zip(header, row, strict=False):
        if cell.strip():
            try:
                values[column] = _value(column, cell.strip())
            except (ValueError, RecursionError):
                wrong.append(f"{column} cannot be {redact(cell.strip())[:40]!r}")
    return values, wrong


def _value(column: str, cell: str) -> Any:
    if column in _LISTS:
        words = re.split(r"[\s;]+", cell)
        return [float(word) for word in words] if column == "hot_fps" else words
    if column in _NUMBERS:
        return float(cell)
    if column in _WHOLE:
        return int(cell)
    if column == "loop":
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(cell.lower(), cell)
    return json.loads(cell) if column == "options" else cell


def _check_defaults(defaults: Mapping[str, Any], where: str) -> None:
    for key in defaults:
        if key in _OWN:
            raise UsageError(f"{where}: each stream has its own {key}; it cannot be a default")
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.0)
            raise UsageError(f"{where}: a stream has no field {redact(key)[:40]!r}; did you mean {near[0]}?")
