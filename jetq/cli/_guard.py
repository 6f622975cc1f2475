"""Start a node's agent and kill whatever it leaves. Started by ``jetq worker``, never by hand."""

from __future__ import annotations

import click

from jetq import log, process
from jetq.config import Settings
from jetq.service.facts import mark_key
from jetq.service.guard import guard


@click.command()
@click.option("--name", required=True, help="Name of the node.")
def command(name: str) -> int:
    """Guard the node NAME, which the environment describes."""
    settings = Settings.from_environ(node=name)
    log.setup(settings.log_level, f"{name} guard")
    key = mark_key(settings.broker_url or "", settings.cluster, name, process.network())
    return guard(process.self_argv("worker", "--name", name), key=key, grace_s=settings.grace_s)
