"""Run Flower in this process. `jetq web` has checked the broker and named it in the environment."""

from __future__ import annotations

import click

from jetq import wire
from jetq.config import Settings


@click.command(hidden=True)
@click.option("--port", type=int, required=True)
def command(*, port: int) -> None:
    """Serve Flower on the loopback address until a signal ends it."""
    settings = Settings.from_environ()
    app = wire.create_app(settings, settings.broker_url)
    app.start(["--quiet", "flower", f"--port={port}", "--address=127.0.0.1", "--logging=warning"])
