"""Submit jobs: one through Celery's own ``send_task``, many from a message template."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring_ascii
from typing import Any

from celery import Celery
from kombu.utils.json import JSONEncoder, dumps

from jetq import ids
from jetq.engine import transport
from jetq.errors import PublishRefused, UsageError
from jetq.model.charge import SEAT_TASK
from jetq.model.members import MEMBER_TASK
from jetq.model.needs import priority
from jetq.store import keys, orders
from jetq.store.base import Order, Parcel, Placed, Publisher

#: Arguments of one call: positional and by name.
Call = tuple[Sequence[Any], Mapping[str, Any]]
#: Where a template has the job's id and its publication number.
ID, PUB = "@jetq-id@", "@jetq-pub@"
#: What runs the parts of a gang or a stream on their nodes. Their report is their result: it is kept, however small
#: results have to be (bytes).
PART_TASKS = {"gang": MEMBER_TASK, "stream": SEAT_TASK}
MOST_REPORT = 1024**2
_encode = JSONEncoder(allow_nan=False).encode


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
        UsageError: arguments are not JSON or too large: which call's, and from which on nothing was sent.
    """
    header = {**store.declared(name), **options.header()}
    number = priority(header.get("priority") if options.priority is None else options.priority)
    order = transport.order_for(name, header, number, app.conf.broker_transport_options["jetq_strategy"])
    template = _Template(app, name, options, header, number)
    placed: list[Placed] = []
    answer: Callable[[], list[Placed]] = list
    try:
        for first, some in _batches(calls):  # these messages are written while the server places those before
            batch = template.parcels(first, some, order, max_arg_bytes)
            placed += _accepted(answer())
            answer = list
            answer = store.publish_ahead(order, batch, wait_for_node=options.wait_for_node)
    finally:
        placed += _accepted(answer())
    if options.durable and placed:
        store.wait_for_disk(placed[-1].job_id)
    return placed


def part_template(app: Celery, kind: str, shown: Mapping[str, str]) -> str:
    """Return the message of a gang's members, or a stream's seats; the ledger puts something for ID and PUB.

    Args:
        kind: ``gang`` or ``stream``.
        shown: what monitors (Flower) show as their arguments; they have none.
    """
    options = Options(kind=kind)
    transport.will_publish()  # the broker need not answer for this
    header = {**options.header(), "max_result_bytes": MOST_REPORT}
    return _Template(app, PART_TASKS[kind], options, header, priority(None)).open(shown)


def _accepted(rows: list[Placed]) -> list[Placed]:
    for row in rows:
        if row.verdict == "refused":
            raise PublishRefused(row.job_id, row.why)
    return rows


def _batches(calls: Iterable[Call]) -> Iterator[tuple[int, list[Call]]]:
    """Give the calls in batches, each with the index of its first."""
    rest, first = iter(calls), 0
    while batch := list(islice(rest, orders.BATCH)):
        yield first, batch
        first += len(batch)


class _Template:
    """One envelope as Celery and kombu make it, cut where jobs differ."""

    _TAG, _BODY, _ARGS, _KWARGS = (f"@jetq-{x}@" for x in ("tag", "body", "args", "kwargs"))

    def __init__(self, app: Celery, name: str, options: Options, header: dict[str, Any], number: int) -> None:
        message = app.amqp.create_task_message(
            ID, name, (), {}, argsrepr=self._ARGS, kwargsrepr=self._KWARGS, ignore_result=False
        )
        headers = {**message.headers, "jetq_pub": PUB}
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
        self._parts = re.split("(@jetq-[a-z]+@)", dumps(envelope))
        self._embed = json.dumps({"callbacks": None, "errbacks": None, "chain": None, "chord": None})
        self._options = options
        self._name = name

    def parcels(self, first: int, calls: Sequence[Call], order: Order, max_arg_bytes: int) -> list[Parcel]:
        """Return a batch of jobs; the first is call number ``first`` (from 0)."""
        made: list[Parcel] = []
        try:
            for call in calls:
                made.append(self.parcel(call, order, max_arg_bytes))
        except UsageError as exc:
            raise UsageError(f"calls[{first + len(made)}]: {exc}; nothing from calls[{first}] on was sent") from exc
        return made

    def parcel(self, call: Call, order: Order, max_arg_bytes: int) -> Parcel:
        """Return one job."""
        args, kwargs = _as_json(self._name, call)
        text = f"[{args}, {kwargs}, {self._embed}]".encode()
        if len(text) > max_arg_bytes:
            raise UsageError(f"the arguments take {len(text)} bytes, more than {max_arg_bytes}: pass a path or URL")
        body = b64encode(text).decode()
        job_id, pub = ids.new_job_id(), ids.random64()
        envelope = self._filled(job_id, pub, body, repr(tuple(call[0])), repr(dict(call[1])))
        digest = orders.digest(self._name, body, order.needs)
        return Parcel(job_id, pub, digest, 0, envelope, self._options.countdown_s, self._options.expires_s)

    def open(self, shown: Mapping[str, str]) -> str:
        """Return the message of a call without arguments; :data:`ID` and :data:`PUB` stand where those belong.

        ``shown``: what monitors take for its arguments.
        """
        body = b64encode(f"[[], {{}}, {self._embed}]".encode()).decode()
        return self._filled(ID, PUB, body, "()", repr(dict(shown)))

    def _filled(self, job_id: str, pub: str, body: str, args: str, kwargs: str) -> str:
        values = {
            ID: job_id,
            self._TAG: pub,
            PUB: pub,
            self._ARGS: _quoted(args[:256]),
            self._KWARGS: _quoted(kwargs[:256]),
            self._BODY: body,
        }
        return "".join([values.get(part, part) for part in self._parts])


def _quoted(text: str) -> str:
    return encode_basestring_ascii(text)[1:-1]


def _as_json(name: str, call: Call) -> tuple[str, str]:
    try:
        return _encode(list(call[0])), _encode(dict(call[1]))
    except (TypeError, ValueError) as exc:
        raise UsageError(f"the arguments of {name} are not JSON: {exc}") from exc
