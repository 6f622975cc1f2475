"""List and show nodes, drain and resume them, and forget those that are gone."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from jetq.cli.complete import node_names
from jetq.cli.format import brief, duration, gibibytes, percent, print_fields, print_json, print_table
from jetq.cli.options import Where, broker_options, json_option
from jetq.errors import JetqError, NoSuchNode
from jetq.model.beat import NodeRow
from jetq.store.redis import RedisStore

#: Time between two looks at a node that drains (s).
POLL_S = 0.2


@click.group(
    epilog="""\b
Examples:
  jetq node list
  jetq node list --json
  jetq node show node-1
  jetq node drain node-1 --grace 60 --wait
  jetq node resume node-1
  jetq node forget node-1"""
)
def command() -> None:
    """List, drain, resume and forget the nodes of the cluster."""


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
    print_table(
        (*columns, "why") if any(row.why for row in rows) else columns,
        ((*_cells(row), row.why) if any(r.why for r in rows) else _cells(row) for row in rows),
        empty="no nodes; start one with `jetq worker` or `jetq up`",
        spare=("memory", "board", "gpu", "beat", "temp"),
    )


@command.command("show", epilog="Example: jetq node show node-1 --json")
@click.argument("name", shell_complete=node_names)
@json_option
@broker_options
def show(*, name: str, as_json: bool, where: Where) -> None:
    """Show one node with everything it says about itself."""
    ledger = where.ledger()
    rows = ledger.nodes()
    row = next((row for row in rows if row.name == name), None)
    if row is None:
        raise NoSuchNode(name, [row.name for row in rows])
    streams = streams_on(ledger, name)
    if as_json:
        print_json({**row.as_json(), "streams": streams})
        return
    print_fields(
        [
            ("node", row.name),
            ("state", row.state),
            ("why", row.why),
            ("slots", f"{row.used:g} of {row.slots} in use"),
            ("running", row.running),
            ("streams", streams),
            ("board", row.board),
            ("address", row.address),
            ("labels", row.labels),
            ("tasks", sorted(ledger.loaded().get(name, ()))),
            ("weight", row.weight),
            ("trim", row.trim),
            ("speeds", [f"{task}={speed:.2f}" for task, speed in sorted(row.speed.items())]),
            ("last beat", row.beat_age_s is not None and f"{duration(row.beat_age_s)} ago"),
            ("version", row.version),
            ("identity", row.identity),
            *(_reading(key, value) for key, value in sorted(row.metrics.items())),
        ]
    )


@command.command("drain", epilog="Example: jetq node drain node-1 --grace 60 --why 'new kernel' --wait")
@click.argument("name", shell_complete=node_names)
@click.option("--grace", "grace_s", type=float, metavar="S", help="Time for what runs to end.  [JETQ_GRACE_S]")
@click.option("--why", default="drained from the command line", help="Shown beside the node.")
@click.option("--wait", is_flag=True, help="Return when nothing is left on it.")
@json_option
@broker_options
def drain(*, name: str, grace_s: float | None, why: str, wait: bool, as_json: bool, where: Where) -> None:
    """Give a node no new work.

    What it has not begun goes elsewhere at once; when the grace is over, what still runs is killed and runs again
    elsewhere. Nothing is charged an attempt. It lasts, over restarts of the node too, until `jetq node resume`.
    """
    settings = where.settings(grace_s=grace_s)
    ledger = where.ledger_of(settings)
    ledger.drain(name, why, grace_s=settings.grace_s)
    state = _wait_for_drain(ledger, name) if wait else "draining"
    if as_json:
        print_json({"name": name, "state": state})
    else:
        print(f"{name} {state}" + ("" if wait else f": what runs has {settings.grace_s:g} s"))


@command.command("resume", epilog="Example: jetq node resume node-1")
@click.argument("name", shell_complete=node_names)
@json_option
@broker_options
def resume(*, name: str, as_json: bool, where: Where) -> None:
    """Let a drained node have work again."""
    where.ledger().resume(name)
    if as_json:
        print_json({"name": name, "state": "resumed"})
    else:
        print(f"{name} resumed: it may have work again")


@command.command("forget", epilog="Example: jetq node forget node-1")
@click.argument("name", shell_complete=node_names)
@json_option
@broker_options
def forget(*, name: str, as_json: bool, where: Where) -> None:
    """Strike off a node that is gone or dead.

    What it still held runs elsewhere.
    """
    settings = where.settings()
    where.ledger_of(settings).forget(name, dead_s=settings.dead_s)
    if as_json:
        print_json({"name": name, "state": "forgotten"})
    else:
        print(f"{name} forgotten")


def streams_on(ledger: RedisStore, name: str) -> list[str]:
    """Return the ids of the streams that a node has, or is about to have, by name."""
    return sorted(row.id for row in ledger.live_streams() if name in row.nodes)


def _wait_for_drain(ledger: RedisStore, name: str) -> str:
    """Wait until a node is drained, gone or dead. Returns which.

    Raises:
        JetqError: somebody has let it work again meanwhile.
    """
    while True:
        row = next((row for row in ledger.nodes() if row.name == name), None)
        if row is None or row.state in ("drained", "gone", "dead"):
            return row.state if row else "gone"
        if row.state == "up":
            raise JetqError(f"node {name} does not drain any more: somebody has resumed it meanwhile")
        time.sleep(POLL_S)


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
