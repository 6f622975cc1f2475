"""Submit jobs: one through Celery's own ``send_task``, many from a message template."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from celery import Celery
from kombu.utils.json import dumps

from jetq import ids
from jetq.engine import transport
from jetq.errors import PublishRefused, UsageError
from jetq.model.needs import priority
from jetq.store import keys, orders
from jetq.store.base import Order, Parcel, Placed, Publisher

#: Arguments of one call: positional and by name.
Call = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Options:
    """How and where jobs shall run. ``None``: the task's own or the cluster's default."""

    labels: tuple[str, ...] = ()
    gpu: int = 0
    mem_bytes: int = 0
    slots: float = 1.0
    strategy: str | None = None
    priority: str | int | None = None
    countdown_s: float | None = None
    expires_s: float | None = None
    kind: str = "task"
    max_attempts: int | None = None
    wait_for_node: bool = False
    durable: bool = False

    def header(self) -> dict[str, Any]:
        """Return what differs from the defaults, as the message carries it."""
        given = {
            "labels": list(self.labels),
            "gpu": self.gpu,
            "mem_bytes": self.mem_bytes,
            "slots": self.slots if self.slots != 1 else None,
            "strategy": self.strategy,
            "kind": self.kind if self.kind != "task" else None,
            "max_attempts": self.max_attempts,
            "wait_for_node": self.wait_for_node,
            "durable": self.durable,
        }
        return {k: v for k, v in given.items() if v not in (None, [], 0, False)}


def submit(app: Celery, name: str, call: Call, options: Options, *, job_id: str | None = None) -> Placed:
    """Send one job.

    Raises:
        PublishRefused: the id is in use, or nobody carries what it needs.
        PublishUnknown: no answer; sending again with the same id is safe.
        UsageError: the arguments are not JSON or too large.
    """
    _as_json(name, call)
    with transport.watch() as seen:
        app.send_task(
            name,
            args=list(call[0]),
            kwargs=dict(call[1]),
            task_id=job_id or ids.new_job_id(),
            priority=None if options.priority is None else priority(options.priority),
            countdown=options.countdown_s,
            expires=options.expires_s,
            jetq=options.header() or None,
        )
    placed = seen[-1]
    if placed.verdict == "refused":
        raise PublishRefused(placed.job_id, placed.why)
    return placed


def submit_many(
    app: Celery, store: Publisher, name: str, calls: Iterable[Call], options: Options, *, max_arg_bytes: int = 1 << 20
) -> list[Placed]:
    """Send many jobs of one task, 200 a script, from one message cut at its variable fields.

    Raises:
        PublishRefused: nobody carries what they need. PublishUnknown: no answer. NotDurable: taken, see its reason.
        UsageError: arguments are not JSON or too large; nothing of that batch was sent.
    """
    header = {**store.declared(name), **options.header()}
    number = priority(header.get("priority") if options.priority is None else options.priority)
    order = transport.order_for(name, header, number, app.conf.broker_transport_options["jetq_strategy"])
    template = _Template(app, name, options, header, number)
    placed: list[Placed] = []
    flying: Future[list[Placed]] | None = None

    def send(batch: list[Parcel]) -> list[Placed]:
        rows = store.publish(order, batch, wait_for_node=options.wait_for_node)
        for row in rows:
            if row.verdict == "refused":
                raise PublishRefused(row.job_id, row.why)
        return rows

    with ThreadPoolExecutor(1) as sender:  # the next messages are written while the server places these
        for some in _batches(calls):
            batch = [template.parcel(call, order, max_arg_bytes) for call in some]
            if flying is not None:
                placed += flying.result()
            flying = sender.submit(send, batch)
        if flying is not None:
            placed += flying.result()
    if options.durable and placed:
        store.wait_for_disk(placed[-1].job_id)
    return placed


def _batches(calls: Iterable[Call]) -> Iterator[list[Call]]:
    rest = iter(calls)
    while batch := list(islice(rest, orders.BATCH)):
        yield batch


class _Template:
    """One envelope as Celery and kombu make it, cut where jobs differ."""

    _ID, _TAG, _PUB, _BODY, _ARGS, _KWARGS = (f"@jetq-{x}@" for x in ("id", "tag", "pub", "body", "args", "kwargs"))

    def __init__(self, app: Celery, name: str, options: Options, header: dict[str, Any], number: int) -> None:
        message = app.amqp.create_task_message(
            self._ID, name, (), {}, argsrepr=self._ARGS, kwargsrepr=self._KWARGS, ignore_result=False
        )
        headers = {**message.headers, "jetq_pub": self._PUB}
        if header:
            headers["jetq"] = header
        with app.producer_or_acquire() as producer:
            channel = producer.channel
            properties = {**message.properties, "delivery_mode": 2}
            envelope = channel.prepare_message("x", number, "application/json", "utf-8", headers, properties)
            envelope["properties"]["priority"] = number
            channel._inplace_augment_message(envelope, "", keys.ROUTED)
        envelope["properties"]["delivery_tag"] = self._TAG
        envelope["body"] = self._BODY
        self._text = dumps(envelope)
        self._embed = json.dumps({"callbacks": None, "errbacks": None, "chain": None, "chord": None})
        self._options = options
        self._name = name

    def parcel(self, call: Call, order: Order, max_arg_bytes: int) -> Parcel:
        """Return one job."""
        args, kwargs = _as_json(self._name, call)
        text = f"[{args}, {kwargs}, {self._embed}]".encode()
        if len(text) > max_arg_bytes:
            raise UsageError(f"the arguments take {len(text)} bytes, more than {max_arg_bytes}: pass a path or URL")
        body = b64encode(text).decode()
        job_id, pub = ids.new_job_id(), ids.random64()
        shown = json.dumps(repr(tuple(call[0]))[:256])[1:-1], json.dumps(repr(dict(call[1]))[:256])[1:-1]
        envelope = (
            self._text.replace(self._ID, job_id)
            .replace(self._TAG, pub)
            .replace(self._PUB, pub)
            .replace(self._ARGS, shown[0])
            .replace(self._KWARGS, shown[1])
            .replace(self._BODY, body)
        )
        digest = orders.digest(self._name, body, order.needs)
        return Parcel(job_id, pub, digest, 0, envelope, self._options.countdown_s, self._options.expires_s)


def _as_json(name: str, call: Call) -> tuple[str, str]:
    try:
        return dumps(list(call[0]), allow_nan=False), dumps(dict(call[1]), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"the arguments of {name} are not JSON: {exc}") from exc
