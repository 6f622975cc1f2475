"""Run one lane of a node. Started by its agent, never by hand."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from jetq import loader, log, wire
from jetq.config import Settings
from jetq.errors import UsageError

if TYPE_CHECKING:
    from celery import Celery


@click.command()
@click.argument("lane", type=click.Choice(["tasks", "processes", "plain"]))
@click.option("--node", required=True, help="Name of the node.")
@click.option("--epoch", required=True, help="Epoch of the agent.")
@click.option("--pool-size", required=True, type=int, help="Children of the tasks lane.")
@click.option("--control-fd", required=True, type=int, help="Where the agent's lines arrive.")
@click.option("--status-fd", required=True, type=int, help="Where this lane answers.")
@click.option("--page-fd", required=True, type=int, help="Where its children say what they run.")
def command(lane: str, node: str, epoch: str, pool_size: int, control_fd: int, status_fd: int, page_fd: int) -> int:
    """Load the tasks, say their names, and run LANE as its agent allows."""
    settings = Settings.from_environ()
    log.setup(settings.log_level, f"{node} {lane}")
    try:
        app = make_app(settings)
        said = {"tasks": loader.check(app), "plain": loader.wants_plain(app)}
    except UsageError as exc:
        _say(status_fd, {"fault": str(exc)})  # every lane finds the same: the agent tells it once
        return exc.exit_code
    _say(status_fd, said)
    return wire.run_lane(
        app,
        lane=lane,
        node=node,
        epoch=epoch,
        pool_size=pool_size,
        control_fd=control_fd,
        status_fd=status_fd,
        page_fd=page_fd,
        settings=settings,
    )


def _say(status_fd: int, words: dict[str, Any]) -> None:
    os.write(status_fd, json.dumps(words).encode() + b"\n")


def make_app(settings: Settings) -> Celery:
    """Return the node's Celery app with all tasks imported: jetq's own, or the one that ``--app`` names.

    Raises:
        UsageError: a task module, or the app, cannot be loaded.
    """
    if settings.app is None:
        app = wire.create_app(settings, settings.broker_url)
    else:
        app = wire.install(loader.load_app(settings.app, settings.app_dir), settings)
    loader.load(settings.app_dir)
    loader.load_included(app)
    return app
