"""Show where a task, or a stream, would go now, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from jetq.cli.complete import stream_ids, task_names
from jetq.cli.format import percent, print_json, print_table, say
from jetq.cli.options import Where, broker_options, byte_count, json_option, words
from jetq.client import JetQ
from jetq.errors import UsageError
from jetq.model.needs import Needs, with_task
from jetq.policy import admission, strategies
from jetq.policy.explain import Standing, explain
from jetq.policy.streamoffers import Offer
from jetq.store import keys


@click.command(
    epilog="""\b
Examples:
  jetq route video.analyze --explain
  jetq route yard.count --label zone=yard --strategy least_connections --json
  jetq route --stream gate --explain"""
)
@click.argument("name", required=False, shell_complete=task_names)
@click.option("--stream", "stream_id", metavar="ID", shell_complete=stream_ids, help="A stream instead of a task.")
@click.option("--explain", "explained", is_flag=True, help="Print the numbers of every node and why.")
@click.option("--label", "labels", multiple=True, metavar="L", help="The node must carry it; may be repeated.")
@click.option("--gpu", is_flag=True, help="The job holds a GPU.")
@click.option("--mem", "mem_bytes", type=byte_count, default="0", metavar="SIZE", help="Memory it needs, e.g. 2GiB.")
@click.option("--slots", type=float, metavar="S", help="Slots it takes; default: what the task asks for, else 1.")
@click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=words(*strategies.BUILT_IN),
    help="How to choose the node.  [JETQ_STRATEGY]",
)
@json_option
@broker_options
def command(
    name: str | None,
    *,
    stream_id: str | None,
    explained: bool,
    as_json: bool,
    where: Where,
    **flags: Any,
) -> None:
    """Show where the task NAME would go if it were sent now. Nothing is sent.

    What the task itself asks for (its labels, slots, GPU, memory, strategy) counts, as far as no flag says otherwise.

    With --stream: what each node would be for a stream that runs or waits, if it were placed now. A stream that runs
    stays where it is.
    """
    if stream_id is not None:
        if name is not None or any(flags.values()):
            raise UsageError("--stream ID shows a stream as it was asked for: leave out NAME and all other flags")
        _route_stream(stream_id, where, explained=explained, as_json=as_json)
        return
    if name is None:
        raise UsageError("name the task, or --stream ID; see `jetq route --help`")
    _route_task(name, where, explained=explained, as_json=as_json, **flags)


def _route_task(
    name: str,
    where: Where,
    *,
    explained: bool,
    as_json: bool,
    labels: Sequence[str],
    gpu: bool,
    mem_bytes: int,
    slots: float | None,
    strategy: str | None,
) -> None:
    settings = where.settings(strategy=strategy)
    ledger = where.ledger_of(settings)
    flags = {
        "labels": labels or None,
        "slots": slots,
        "gpu": int(gpu) or None,
        "mem_bytes": mem_bytes or None,
        "strategy": strategy,
    }
    options = {**ledger.declared(name), **{key: value for key, value in flags.items() if value is not None}}
    needs = Needs(
        tuple(options.get("labels") or ()),
        float(options.get("slots", 1)),
        int(options.get("gpu") or 0),
        int(options.get("mem_bytes") or 0),
    )
    chosen = strategies.get(options.get("strategy") or settings.strategy)
    nodes, loaded = ledger.nodes(), ledger.loaded()
    scarce = admission.is_scarce(name, nodes, loaded)
    cohort = with_task(needs.cohort, name) if scarce else needs.cohort
    waiting = ledger.queues().get(keys.shared_queue(cohort), 0)
    who = admission.knowers(name, loaded)
    standings = explain(nodes, needs, chosen, name=name, backlog=waiting, knowers=who)
    if as_json:
        print_json([standing.as_json() for standing in standings])
        return
    if explained:
        columns = ("node", "rank", "score", "used", "prior", "speed", "trim", "net", "board", "why")
        print_table(columns, (_cells(s) for s in standings), empty="no nodes; start one with `jetq worker`")
        why = f"; not all nodes know {name}: its jobs go to those that do" if scarce else ""
        say(f"strategy {chosen.name}; {waiting} jobs wait in the shared queue {cohort!r}{why}")
    else:
        print(verdict(standings))


def _route_stream(stream_id: str, where: Where, *, explained: bool, as_json: bool) -> None:
    client = JetQ.over(where.settings())
    offers = client.stream_offers(stream_id)
    has_it = {offer.seat: offer.node for offer in offers if offer.seat}
    best = next((offer.node for offer in offers if not offer.why_not), None)
    if as_json:
        print_json([offer.as_json() for offer in offers])
    elif explained:
        columns = ("node", "has it", "costs", "decoder", "full", "price", "hot", "why not")
        print_table(columns, (_stream_cells(offer) for offer in offers), empty="no nodes; start one with `jetq worker`")
        stays = (
            f"it runs on {has_it['owner']} and stays there"
            if "owner" in has_it
            else f"it waits: {client.job(stream_id).row().reason}"
        )
        say(f"the least price wins: how full the node would be of what it is worth now; {stays}")
    else:
        print(has_it.get("owner") or best or "nowhere: no node has room for it")


def _stream_cells(o: Offer) -> Sequence[object]:
    decoder = percent(o.decode) if o.decode else None
    return (
        o.node,
        o.seat or None,
        f"{o.slots:.2f}",
        decoder,
        percent(o.fill),
        f"{o.price:.3f}",
        "yes" if o.hot else None,
        o.why_not,
    )


def verdict(standings: Sequence[Standing]) -> str:
    """Return in a few words where the job would go."""
    best = [s.node for s in standings if s.rank == 1]
    if best:
        return " or ".join(best)
    return "the shared queue" if any(s.eligible for s in standings) else "nowhere: no node can serve it"


def _cells(s: Standing) -> Sequence[object]:
    score = None if s.score is None else f"{s.score:.3f}"
    speeds = [f"{value:.2f}" for value in (s.prior, s.speed, s.trim)]
    return (s.node, s.rank, score, f"{s.used:g}/{s.slots}", *speeds, f"{s.net:.3f}", s.board, s.why)
