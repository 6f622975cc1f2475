"""Stop the cluster that `jetq up` started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from jetq.broker.folder import UpFolder
from jetq.cli.format import print_json, say
from jetq.cli.options import json_option
from jetq.config import Settings
from jetq.errors import JetqError

#: Time beyond the nodes' grace until a stop counts as failed (s).
STOP_S = 30.0
#: A stop that takes longer says what it waits for (s).
TELL_S = 3.0


@click.command(
    epilog="""\b
Examples:
  jetq down
  jetq down --dir /srv/jetq"""
)
@click.option("--dir", "dir_", metavar="DIR", type=Path, help="Folder of the `jetq up` to stop.  [JETQ_DIR]")
@click.option("--now", is_flag=True, help="Kill what runs instead of waiting for it.")
@json_option
def command(*, dir_: Path | None, now: bool, as_json: bool) -> None:
    """Stop broker, nodes and web page of `jetq up`: running work is finished first, for at most the grace.

    Nothing to stop is fine. What has not run yet stays in the folder and runs after the next `jetq up`.
    """
    settings = Settings.from_environ(dir=dir_)
    stopped = stop(UpFolder(settings.home_dir), now=now)
    if as_json:
        print_json({"dir": str(settings.home_dir), "stopped": stopped})
    else:
        say(f"stopped the `jetq up` in {settings.home_dir}" if stopped else f"nothing runs in {settings.home_dir}")


def stop(folder: UpFolder, *, now: bool) -> bool:
    """Stop the `jetq up` of a folder and return once it is gone. False: none was running.

    Raises:
        JetqError: it is still there long after its nodes' grace.
    """
    state = folder.running()
    if state is None:
        return False
    within_s = state.grace_s + STOP_S
    begun_s = time.monotonic()
    told = False
    try:
        os.kill(state.pid, signal.SIGTERM)
        if now:
            os.kill(state.pid, signal.SIGINT)  # the second signal ends its patience
        while folder.busy() or _is_there(state.pid):
            waited_s = time.monotonic() - begun_s
            if waited_s > TELL_S and not (now or told):
                say(f"running work gets up to {state.grace_s:.0f} s to finish (--now kills it)")
                told = True
            if waited_s > within_s:
                raise JetqError(f"`jetq up` (pid {state.pid}) is still stopping after {within_s:.0f} s; use --now")
            time.sleep(0.05)
    except ProcessLookupError:
        return True  # it ended just now
    except PermissionError:
        raise JetqError(f"`jetq up` (pid {state.pid}) belongs to another user; stop it as that user") from None
    return True


def _is_there(pid: int) -> bool:
    """Whether a process still holds anything: of one that has ended and waits for its parent, the words are gone."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
