"""What mpirun calls to start its daemon on another machine. Not for people: `jetq gang` starts gangs."""

from __future__ import annotations

import os
import sys
import time

import click

from jetq import wire
from jetq.config import Settings
from jetq.errors import UsageError
from jetq.launch.exec import LaunchRequest

#: Time between two looks at whether the daemon has ended (s). When its gang ends, this process is killed with it.
LOOK_S = 0.2


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> int:
    """Ask the member on HOST to start mpirun's daemon, and end as that does."""
    request = LaunchRequest.parse(words)
    token = os.environ.get("JETQ_TOKEN")
    if not token:
        raise UsageError("`jetq exec` is what mpirun calls on its own, in a gang; start one with `jetq gang`")
    ask = wire.patient_store(Settings.from_environ())
    asked = ask("ask_launch", token, request.host, words)
    while (ended := ask("launched", asked)) is None:
        time.sleep(LOOK_S)
    code, output = ended
    sys.stderr.write(output)
    return int(code)
