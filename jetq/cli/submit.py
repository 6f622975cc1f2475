"""Send one task by name."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from jetq.cli.complete import task_names
from jetq.cli.job import finish
from jetq.cli.options import Where, broker_options, byte_count, json_option, words
from jetq.cli.sent import print_sent
from jetq.client import JetQ, Options
from jetq.errors import UsageError
from jetq.model.needs import PRIORITIES
from jetq.policy.strategies import BUILT_IN

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@click.command(
    epilog="""\b
Examples:
  jetq submit demo.nap 2 --wait
  jetq submit yard.count 100 camera=3 --label zone=yard
  jetq submit yard.count 3 --priority urgent --expires 60 --json"""
)
@click.argument("name", shell_complete=task_names)
@click.argument("args", nargs=-1, metavar="[ARG | K=V]...")
@click.option("--label", "labels", multiple=True, metavar="L", help="The node must carry it; may be repeated.")
@click.option("--priority", metavar="P", shell_complete=words(*PRIORITIES), help="urgent, normal or low.")
@click.option("--gpu", is_flag=True, help="Hold the node's GPU for this job alone.")
@click.option("--mem", "mem_bytes", type=byte_count, default="0", metavar="SIZE", help="Memory it needs, e.g. 2GiB.")
@click.option("--slots", type=float, default=1.0, metavar="S", help="Slots it takes.  [default: 1]")
@click.option(
    "--strategy", metavar="NAME", shell_complete=words(*BUILT_IN), help="How to choose the node.  [JETQ_STRATEGY]"
)
@click.option("--countdown", "countdown_s", type=float, metavar="S", help="Start no sooner than S seconds from now.")
@click.option("--expires", "expires_s", type=float, metavar="S", help="Do not start later than S seconds from now.")
@click.option("--id", "job_id", metavar="ID", help="The job's id: sending the same id again sends nothing twice.")
@click.option("--wait-for-node", is_flag=True, help="Accept what no node can serve, or knows, yet.")
@click.option("--durable", is_flag=True, help="Return only once the broker has it on its disk.")
@click.option("--wait", "wait", is_flag=True, help="Wait until it has ended and print its result.")
@click.option("--timeout", type=float, metavar="S", help="With --wait: wait for at most S seconds.")
@json_option
@broker_options
def command(
    name: str,
    args: tuple[str, ...],
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    where: Where,
    gpu: bool,
    job_id: str | None,
    **options: Any,
) -> int:
    """Send the task NAME with its arguments and print the job's id.

    Each ARG is read as JSON where it is JSON (3, true, [1, 2], {"a": 1}), else as plain text; K=V is a keyword
    argument. Put -- before an ARG that starts with a dash.
    """
    positional, keywords = read_arguments(args)
    job = JetQ.over(where.settings()).send(name, positional, keywords, Options(gpu=int(gpu), **options), job_id=job_id)
    if wait:
        return finish(job, timeout, as_json=as_json)
    print_sent(job, as_json=as_json)
    return 0


def read_arguments(words: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and keyword arguments from the words of a command line.

    Raises:
        UsageError: a word that starts like JSON is not JSON, or a keyword comes twice.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for word in words:
        match = _KEY.fullmatch(word)
        if match is None:
            positional.append(read_value(word))
        elif match[1] in keywords:
            raise UsageError(f"the argument {match[1]}= is given twice")
        else:
            keywords[match[1]] = read_value(match[2])
    return positional, keywords


def read_value(word: str) -> Any:
    """Return the JSON value that ``word`` is, else the word itself.

    Raises:
        UsageError: it starts like JSON and is not.
    """
    try:
        return json.loads(word, parse_constant=_not_json)
    except ValueError as exc:
        if word[:1] in ("[", "{", '"'):
            raise UsageError(f"the argument {word!r} is broken JSON ({exc}); quote it for the shell") from exc
        return word
    except RecursionError:
        raise UsageError("an argument is nested too deeply") from None


def _not_json(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")
