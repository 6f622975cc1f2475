"""List and show nodes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jetq.cli.format import brief, duration, gibibytes, percent, print_fields, print_json, print_table
from jetq.cli.options import Where, broker_options, json_option
from jetq.errors import NoSuchNode
from jetq.model.beat import NodeRow


@click.group(
    epilog="""\b
Examples:
  jetq node list
  jetq node list --json
  jetq node show node-1"""
)
def command() -> None:
    """List and show the nodes of the cluster."""


@command.command("list", epilog="Example: jetq node list --json")
@json_option
@broker_options
def list_nodes(*, as_json: bool, where: Where) -> None:
    """List all nodes: their load, what they carry and how they are."""
    rows = where.ledger().nodes()
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    columns = ("node", "state", "used", "trim", "board", "cpu", "gpu", "memory", "temp", "beat", "labels")
    print_table(columns, (_cells(row) for row in rows), empty="no nodes; start one with `jetq worker` or `jetq up`")


@command.command("show", epilog="Example: jetq node show node-1 --json")
@click.argument("name")
@json_option
@broker_options
def show(*, name: str, as_json: bool, where: Where) -> None:
    """Show one node with everything it says about itself."""
    rows = where.ledger().nodes()
    row = next((row for row in rows if row.name == name), None)
    if row is None:
        raise NoSuchNode(name, [row.name for row in rows])
    if as_json:
        print_json(row.as_json())
        return
    print_fields(
        [
            ("node", row.name),
            ("state", row.state),
            ("slots", f"{row.used:g} of {row.slots} in use"),
            ("running", row.running),
            ("board", row.board),
            ("labels", row.labels),
            ("weight", row.weight),
            ("trim", row.trim),
            ("speeds", [f"{task}={speed:.2f}" for task, speed in sorted(row.speed.items())]),
            ("last beat", row.beat_age_s is not None and f"{duration(row.beat_age_s)} ago"),
            ("version", row.version),
            ("identity", row.identity),
            *(_reading(key, value) for key, value in sorted(row.metrics.items())),
        ]
    )


def _reading(key: str, value: float | None) -> tuple[str, str | float | None]:
    """Return one value of a beat as a person reads it: bytes as GiB, fractions as percent, the RTT in ms."""
    what, _, unit = key.replace("_", " ").rpartition(" ")
    if value is None:
        return key.replace("_", " "), None
    if unit == "bytes":
        return what, gibibytes(value)
    if unit == "busy":
        return what, percent(value)
    return (what, f"{value * 1000:.1f}ms") if unit == "s" else (key.replace("_", " "), value)


def _cells(row: NodeRow) -> Sequence[object]:
    metrics = row.metrics
    used_bytes, total_bytes = metrics.get("mem_used_bytes"), metrics.get("mem_total_bytes")
    memory = f"{gibibytes(used_bytes)}/{gibibytes(total_bytes)}" if used_bytes and total_bytes else None
    implied = ("arch=", "board=", "node=")
    temp_c = metrics.get("temp_c")
    return (
        row.name,
        row.state,
        f"{row.used:g}/{row.slots}",
        f"{row.trim:.2f}",
        row.board,
        percent(metrics.get("cpu_busy")),
        percent(metrics.get("gpu_busy")),
        memory,
        None if temp_c is None else f"{temp_c:.0f}°C",
        duration(row.beat_age_s),
        brief(" ".join(label for label in row.labels if not label.startswith(implied)), most=40) or None,
    )
