"""Have what streams need ready, and fork their runners. Started by a lane, never by hand."""

from __future__ import annotations

import socket

import click

from jetq import log
from jetq.config import Settings
from jetq.video import live


@click.command()
@click.option("--fd", required=True, type=int, help="Socket to the lane.")
def command(fd: int) -> None:
    """Fork runners of streams."""
    settings = Settings.from_environ()
    log.setup(settings.log_level, f"{settings.node} stream")
    live.serve(socket.socket(fileno=fd))
