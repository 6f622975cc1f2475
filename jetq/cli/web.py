"""Serve Flower, the web page of the cluster."""

from __future__ import annotations

import importlib.util
import os

import click

from jetq import process
from jetq.broker.server import free_port
from jetq.cli.format import print_json, say
from jetq.cli.options import Where, broker_options, json_option
from jetq.errors import UsageError

#: What is missing, and the way out.
HINT = "the web page needs Flower: pip install 'jetq-cluster[web]' (from the checkout: pip install '.[web]')"


@click.command(
    epilog="""\b
Examples:
  jetq web --port 5555
  jetq web --broker redis://192.168.1.10:6379"""
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="P", help="Port; 0 is any free one.")
@json_option
@broker_options
def command(*, port: int, as_json: bool, where: Where) -> None:
    """Serve Flower's pages for the cluster, on this machine's loopback address only."""
    if not available():
        raise UsageError(HINT)
    settings = where.settings()
    chosen = port or free_port()
    url = f"http://127.0.0.1:{chosen}/"
    if as_json:
        print_json({"url": url, "pid": os.getpid()})
    else:
        print(url)
        say("Ctrl-C ends it")
    process.become(process.self_argv("_web", "--port", str(chosen)), {**os.environ, **settings.as_environ()})


def available() -> bool:
    """Whether Flower is installed."""
    return importlib.util.find_spec("flower") is not None
