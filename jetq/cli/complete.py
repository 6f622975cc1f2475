"""What the shell completes with what the cluster knows: node names, job ids, task names. Quiet, and soon done."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from functools import partial

import click

from jetq import broker, wire
from jetq.config import Settings
from jetq.errors import JetqError
from jetq.store.redis import RedisStore

#: The broker gets so long for one answer, and all of it together (s): a shell stands still meanwhile.
ANSWER_S, WITHIN_S = 0.3, 0.5
#: So many of the newest jobs are offered.
NEWEST = 50

#: What click asks for words: the words given so far, the parameter, and how the next word begins.
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _from_cluster(ask: Callable[[RedisStore], Iterable[str]]) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
        given = ctx.params.get(param.name or "") if param.nargs == -1 else None
        found: list[str] = []
        asking = threading.Thread(target=partial(_ask, ask, ctx, found), daemon=True)
        asking.start()
        asking.join(WITHIN_S)
        return [word for word in list(found) if word.startswith(begun) and word not in (given or ())]

    return complete


def _ask(ask: Callable[[RedisStore], Iterable[str]], ctx: click.Context, found: list[str]) -> None:
    """Add what the cluster answers; nothing where there is no broker, or it cannot be used."""
    with contextlib.suppress(JetqError, OSError, ValueError):
        flags = {"broker_url": "broker", "dir": "dir_", "cluster": "cluster"}
        settings = Settings.from_environ(**{field: ctx.params.get(flag) for field, flag in flags.items()})
        store = wire.open_store(settings, broker.find(settings), answer_s=ANSWER_S)
        found += ask(store)


#: The names of all known nodes.
node_names = _from_cluster(lambda store: store.loaded())
#: The ids of the newest jobs, newest first, and those of streams, which may be old.
job_ids = _from_cluster(lambda store: dict.fromkeys([*store.job_ids(NEWEST), *store.stream_ids()]))
#: The ids of all streams that run or wait.
stream_ids = _from_cluster(lambda store: store.stream_ids())
#: The names of all tasks that some node has loaded.
task_names = _from_cluster(lambda store: sorted({name for names in store.loaded().values() for name in names}))
