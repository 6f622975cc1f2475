"""Print the hostfile of the nodes that are up, for an mpirun of your own."""

from __future__ import annotations

import click

from jetq.cli.format import print_json, say
from jetq.cli.options import Where, broker_options, json_option, words
from jetq.launch import hostfile
from jetq.model.survey import ABSENT


@click.command(
    epilog="""\b
Examples:
  jetq hostfile > hosts && mpirun --hostfile hosts --map-by slot hostname
  jetq hostfile --slots gpu
  jetq hostfile --json"""
)
@click.option(
    "--slots",
    metavar="cores|gpu|N",
    shell_complete=words("cores", "gpu"),
    help="Slots of a machine: its cores, its GPUs, or a number; default: the slots of its nodes.",
)
@json_option
@broker_options
def command(*, slots: str | None, as_json: bool, where: Where) -> None:
    """Print an Open MPI hostfile of the nodes that are up: one line a machine, for an mpirun of your own (by SSH).

    Nothing is reserved: what runs on the nodes runs beside it.
    """
    rule = None if slots is None else hostfile.slots_rule(slots)
    rows = where.ledger().nodes()
    hosts = hostfile.of_nodes(rows, rule)
    for row in rows:
        if row.state != "up" and row.state not in ABSENT:
            say(f"without node {row.name}: it is {row.state}")
    if as_json:
        print_json([host.as_json() for host in hosts])
    else:
        print(hostfile.text(hosts), end="")
