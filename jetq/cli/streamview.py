"""How a stream reads: a few words in a list, and all that its node says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jetq.cli.format import brief, duration
from jetq.model.job import JobRow, JobState

#: What a node said of a stream is old after so long (s); it says something each second.
OLD_S = 3.0
#: A camera's address in a list is cut behind so many characters.
ADDRESS = 40
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def named(row: JobRow) -> str:
    """Return a job's name as a list shows it."""
    return brief(row.name, most=ADDRESS) if row.kind == "stream" else row.name


def outcome(row: JobRow) -> str:
    """Return in a few words how a stream is: its state and rate, or why it waits, or how it ended."""
    if row.ended:
        over = row.result.get("why", "") if isinstance(row.result, Mapping) else ""
        return (row.error or row.reason or "").partition("\n")[0] if not over else str(over)
    told = current(row)
    if told is None:
        return f"waits: {row.reason}" if row.state == JobState.QUEUED.value else "starts"
    words = [_state(told).replace(f"{row.name}: ", "")]  # it stands in the line already
    if told.get("state") == "streaming":
        words += [f"{number(told.get('fps_out'))} fps", told.get("slowed") or ""]
    dropped = sum(sink.get("dropped") or 0 for sink in told.get("sinks") or ())
    words += [f"{dropped} results dropped by sinks" if dropped else "", _old(told)]
    return ", ".join(word for word in words if word)


def current(row: JobRow) -> Mapping[str, Any] | None:
    """Return what the node that has a stream says of it; None: nothing yet, or nobody has it."""
    told = row.telemetry
    if told is None or row.ended or row.state == JobState.QUEUED.value or told.get("node") not in row.nodes:
        return None
    return told


def fields(row: JobRow) -> list[tuple[str, object]]:
    """Return what is shown of a stream beside what is shown of every job."""
    shown: list[tuple[str, object]] = []
    spec = (row.stream or {}).get("spec") or {}
    if spec:
        shown += _asked(spec, row.stream or {})
    told = current(row)
    return shown + (_told(told, spec) if told is not None else [])


def _asked(spec: Mapping[str, Any], stream: Mapping[str, Any]) -> list[tuple[str, object]]:
    options = " ".join(f"{name}={json.dumps(value)}" for name, value in sorted((spec.get("options") or {}).items()))
    where = [*(f"label {label}" for label in spec.get("labels") or ()), spec.get("node") and f"node {spec['node']}"]
    changed = stream["version"] - 1
    return [
        ("owner", stream["owner"]),
        ("heir", stream["heir"] and f"{stream['heir']}: becomes the owner with its first frame"),
        ("analyzer", " ".join(filter(None, (spec.get("analyzer"), options)))),
        ("asked for", ", ".join(filter(None, (*_rates(spec), *where, "a GPU" if spec.get("gpu") else "")))),
        ("changed", f"{changed} time{'s' * (changed != 1)} since it was sent" if changed else None),
    ]


def _rates(spec: Mapping[str, Any]) -> list[str]:
    fps, hot, cost = spec.get("fps"), spec.get("hot_fps") or (), spec.get("cost")
    return [
        f"{fps:g} fps" if fps else "all frames",
        f"{', '.join(f'{step:g}' for step in hot)} on a hot node" if hot else "",
        f"{cost:g} slots" if cost else "",
        spec.get("size") or "",
        f"{bytes_of(spec.get('mem_bytes'))} of memory" if spec.get("mem_bytes") else "",
        "from the beginning at its end" if spec.get("loop") else "",
    ]


def _told(told: Mapping[str, Any], spec: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("stream", ", ".join(filter(None, (_state(told), _old(told))))),
        ("slowed", told.get("slowed")),
        ("frames", f"{number(told.get('fps_in'))} fps in, {number(told.get('fps_out'))} fps looked at"),
        ("of these", _counts(told)),
        ("latency", f"p50 {milliseconds(told.get('latency_p50_s'))}, p99 {milliseconds(told.get('latency_p99_s'))}"),
        ("picture", _picture(told)),
        ("takes", f"{number(told.get('cpu_s'), 2)} cores, {bytes_of(told.get('rss_bytes'))}"),
        ("restarts", told.get("reconnects") or None),
        ("results", f"{told['results_dropped']} did not reach the ledger" if told.get("results_dropped") else None),
        *((f"sink {name}", text) for name, text in _sinks(told, spec)),
    ]


def _state(told: Mapping[str, Any]) -> str:
    since = duration(told.get("since_s"))
    why = told.get("why") or ""
    return f"{told.get('state')}{f' for {since}' if since else ''}{f': {why}' if why else ''}"


def _old(told: Mapping[str, Any]) -> str:
    age_s = told.get("age_s")
    return f"as of {duration(age_s)} ago" if age_s is not None and age_s > OLD_S else ""


def _counts(told: Mapping[str, Any]) -> str | None:
    if told.get("frames") is None:
        return None
    age_s = told.get("frame_age_s")
    newest = "" if age_s is None else f", the newest came {milliseconds(age_s)} ago"
    return f"{told['frames']} came since its last start, {told.get('drops', '-')} dropped{newest}"


def _picture(told: Mapping[str, Any]) -> str | None:
    if not told.get("backend"):
        return None
    size = f"{told.get('width')}x{told.get('height')}"
    decoder = ", decoded by the board" if told.get("hardware") else ""
    return " ".join(filter(None, (size, told.get("codec"), f"by {told['backend']}{decoder}")))


def _sinks(told: Mapping[str, Any], spec: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    shown = []
    for name, sink in zip(spec.get("sinks") or (), told.get("sinks") or (), strict=False):
        dropped = f", {sink['dropped']} dropped" if sink.get("dropped") else ""
        why = f": {sink['why']}" if sink.get("why") else ""
        shown.append((name, f"{sink.get('kept', '-')} kept{dropped}{why}"))
    return shown


def number(value: float | None, places: int = 1) -> str:
    """Return a number, "-" where it is not known."""
    return "-" if value is None else f"{value:.{places}f}"


def milliseconds(seconds: float | None) -> str:
    """Return a short time in ms, a longer one in words, "-" where it is not known."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f}ms" if seconds < 1 else str(duration(seconds))


def bytes_of(count: float | None) -> str:
    """Return an amount of memory, "-" where it is not known."""
    if count is None:
        return "-"
    return next((f"{count / unit:.0f} {name}" for unit, name in _UNITS if count >= unit), f"{count:g} bytes")
