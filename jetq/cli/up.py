"""Start a whole cluster on this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from jetq.broker import Listen, shown
from jetq.broker.folder import UpFolder, UpState
from jetq.cli import web
from jetq.cli.format import print_fields, print_json, say
from jetq.cli.options import Where, json_option
from jetq.cli.worker import check_streams
from jetq.config import Settings
from jetq.errors import UsageError
from jetq.service.background import in_background
from jetq.service.up import Up, UpPlan

#: More nodes than this on one machine are a mistake.
MOST_NODES = 64


@click.command(
    epilog="""\b
Examples:
  jetq up -d --nodes 3 --slots 4,2,1
  jetq up --app-dir yard
  jetq up --listen 192.168.1.10:6379        (prints the line that joins another board)"""
)
@click.option("-d", "--detach", is_flag=True, help="Return once all nodes are up, and leave them running.")
@click.option(
    "--nodes",
    type=click.IntRange(1, MOST_NODES),
    default=1,
    envvar="JETQ_NODES",
    help="How many; default: 1.  [JETQ_NODES]",
)
@click.option(
    "--slots", metavar="S[,S...]", help="Slots of every node, or of each; default: by cores and RAM.  [JETQ_SLOTS]"
)
@click.option("--dir", "dir_", metavar="DIR", type=Path, help="Folder of the broker, logs and state.  [JETQ_DIR]")
@click.option("--listen", metavar="ADDR[:PORT]", envvar="JETQ_LISTEN", help="Let other boards join.  [JETQ_LISTEN]")
@click.option("--app-dir", metavar="DIR", type=Path, help="Folder whose tasks/ the nodes load.  [JETQ_APP_DIR]")
@click.option("--broker", metavar="URL", help="Use this broker instead of an own one.  [JETQ_BROKER_URL]")
@click.option("--cluster", metavar="NAME", help="Namespace of the cluster on its broker.  [JETQ_CLUSTER]")
@click.option("--web/--no-web", "with_web", default=True, help="With or without Flower.  [default: with]")
@json_option
def command(
    *,
    detach: bool,
    nodes: int,
    slots: str | None,
    dir_: Path | None,
    listen: str | None,
    app_dir: Path | None,
    broker: str | None,
    cluster: str | None,
    with_web: bool,
    as_json: bool,
) -> None:
    """Start a broker, nodes and the web page on this machine. Ctrl-C (or `jetq down`) stops them all again."""
    environ = {key: value for key, value in os.environ.items() if key not in ("JETQ_SLOTS", "JETQ_NODE")}
    given = {"dir": dir_, "app_dir": app_dir, "broker_url": broker, "cluster": cluster}
    settings = Settings.from_environ(environ, **{k: v for k, v in given.items() if v is not None})
    check_streams(settings)
    if settings.app_dir and not (settings.app_dir / "tasks").is_dir():
        raise UsageError(f"--app-dir {settings.app_dir} has no tasks/ folder; `jetq init DIR` writes an example")
    if listen and settings.broker_url:
        raise UsageError("--listen is for the broker that `jetq up` starts, but one is given; leave one of them out")
    per_node = slots_of_nodes(slots or os.environ.get("JETQ_SLOTS"), nodes)
    with_flower = with_web and web.available()
    plan = UpPlan(absolute(settings), per_node, Listen.parse(listen) if listen else None, with_flower)
    if with_web and not with_flower:
        say(f"no web page: {web.HINT}")
    if detach:
        log = UpFolder(plan.settings.home_dir).log_dir / "up.log"
        facts = in_background(lambda ready: _up(plan).serve(lambda state: ready(asdict(state))), log)
        show(UpState(**facts), plan, as_json=as_json)
    else:
        _up(plan).serve(lambda state: show(state, plan, as_json=as_json))


def _up(plan: UpPlan) -> Up:
    return Up(plan, Where.ledger_of, say)


def slots_of_nodes(text: str | None, nodes: int) -> tuple[int | None, ...]:
    """Return each node's slots from ``4`` or ``4,2,1``.

    Raises:
        UsageError: no whole numbers from 1 to 1024, or not one for each node.
    """
    if not text:
        return (None,) * nodes
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number <= 1024 for number in numbers):
        raise UsageError(f"--slots {text!r}: write whole numbers from 1 to 1024, one for all nodes or one for each")
    if len(numbers) not in (1, nodes):
        raise UsageError(
            f"--slots {text!r} names {len(numbers)} nodes, but --nodes is {nodes}; give one number for each"
        )
    return tuple(numbers * nodes if len(numbers) == 1 else numbers)


def absolute(settings: Settings) -> Settings:
    """Return the settings with folders that mean the same in every process."""
    return settings.with_(
        dir=settings.home_dir.expanduser().absolute(),
        app_dir=settings.app_dir.expanduser().absolute() if settings.app_dir else None,
        shared=settings.shared.expanduser().absolute() if settings.shared else None,
    )


def show(state: UpState, plan: UpPlan, *, as_json: bool) -> None:
    """Print where everything is. The join line is the only place that shows the password."""
    folder = UpFolder(plan.settings.home_dir)
    flower = f"http://127.0.0.1:{state.web_port}/" if state.web_port else None
    facts = {"dir": str(folder.path), "broker": shown(state.url), "flower": flower, "nodes": list(state.nodes)}
    if as_json:
        print_json({**facts, "pid": state.pid, "join": state.join, "logs": str(folder.log_dir)})
    else:
        print_fields(facts.items())
        if state.join:
            print(f"join another board with:\n  {state.join}")
    sys.stdout.flush()
