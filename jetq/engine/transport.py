"""kombu's Redis transport with one branch: the virtual queue ``jetq`` is published by the ledger's script.

Every publish of Celery ends in ``Channel._put``: apply_async, send_task, canvas, retry, replace, beat, batches.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import kombu.transport as aliases
import redis
from kombu.transport import redis as stock
from kombu.utils.json import JSONEncoder

from jetq import ids
from jetq.errors import PublishRefused, PublishUnknown, UsageError
from jetq.model.needs import Needs, priority
from jetq.policy import strategies
from jetq.store import keys, orders, scripts
from jetq.store.base import Order, Parcel, Placed
from jetq.store.link import run_script, wait_for_disk

#: Kinds that are not short work get no limit on attempts.
_NO_LIMIT = frozenset({"stream"})
_LOST = (redis.ConnectionError, redis.TimeoutError)
_local = threading.local()
_encode = JSONEncoder().encode  # kombu's own, made once


@lru_cache(maxsize=1024)
def usual_order(name: str, number: int, default_strategy: str) -> Order:
    """Return the order of a task that asks for nothing."""
    return order_for(name, {}, number, default_strategy)


def order_for(name: str, options: dict[str, Any], number: int, default_strategy: str) -> Order:
    """Return the order that a task's ``jetq`` options ask for. ``number``: kombu's priority."""
    kind = options.get("kind", "task")
    needs = Needs(
        tuple(options.get("labels") or ()),
        float(options.get("slots") or 1),
        int(options.get("gpu") or 0),
        int(options.get("mem_bytes") or 0),
    )
    limit = options.get("max_attempts")
    return Order(
        name,
        kind,
        needs,
        priority(number),
        options.get("strategy") or default_strategy,
        (0 if kind in _NO_LIMIT else 3) if limit is None else int(limit),
    )


def parcel_for(message: dict[str, Any], needs: Needs) -> Parcel:
    """Return a message as a parcel: it gets a publication number, and its times move to the ledger's clock.

    Raises:
        UsageError: its id is too long.
    """
    headers = message["headers"]
    if len(headers["id"].encode()) > ids.LONGEST_ID:
        raise UsageError(f"the id {headers['id'][:40]!r}… is too long: use up to {ids.LONGEST_ID} bytes")
    delay_s = _from_now(headers.get("eta"))
    expires_s = _from_now(headers.get("expires"))
    headers["eta"] = headers["expires"] = None
    pub = headers["jetq_pub"] = ids.random64()
    return Parcel(
        headers["id"],
        pub,
        orders.digest(headers["task"], message["body"], needs),
        (headers.get("replaced_task_nesting") or 0) * 100_000 + (headers.get("retries") or 0),
        _encode(message),
        delay_s,
        expires_s,
    )


def _from_now(stamp: str | None) -> float | None:
    if not stamp:
        return None
    when = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())


@contextmanager
def watch() -> Iterator[list[Placed]]:
    """Collect what became of each job that this thread publishes inside the block."""
    before = getattr(_local, "placed", None)
    placed: list[Placed] = []
    _local.placed = placed
    try:
        yield placed
    finally:
        _local.placed = before


def will_publish() -> None:
    """Say that this thread publishes next. A new channel for that is not tried out: the publish itself finds out."""
    _local.publishes = True


class RoutedChannel:
    """What jetq adds to each of kombu's Redis channels."""

    #: Lanes wait for the broker (the ids make repeats safe); producers get an error within seconds.
    patient = False
    _plain: Any = None
    _declared: Mapping[str, Any] = {}  # task name -> options, as nodes say
    _declared_version = ""  # the ledger's script refuses a publish that follows another one

    def _create_client(self, asynchronous: bool = False) -> Any:
        """Return one client per pool: kombu builds a ``redis.Redis`` per command, 59 us each."""
        if asynchronous:
            client = super()._create_client(asynchronous)  # type: ignore[misc]
            if getattr(_local, "publishes", False):
                client.ping = lambda: True  # how kombu tries a new channel out, for 6 s and without the job's id
            return client
        if self._plain is None or self._plain.connection_pool is not self.pool:  # type: ignore[attr-defined]
            self._plain = super()._create_client()  # type: ignore[misc]
        return self._plain

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        """Publish: to a plain queue as kombu does, to ``jetq`` in one script."""
        _local.publishes = False
        if queue != keys.ROUTED:
            super()._put(queue, message, **kwargs)  # type: ignore[misc]
            return
        options = self.connection.client.transport_options  # type: ignore[attr-defined]
        limit = options.get("jetq_max_arg_bytes", 1 << 20)
        size = len(message["body"]) * 3 // 4
        if size > limit:
            raise UsageError(
                f"the arguments of {message['headers']['task']} take {size} bytes, more than {limit}: "
                "pass a path or URL instead, or raise JETQ_MAX_ARG_BYTES"
            )
        batch = kwargs.pop("_publish_batch", None)
        if batch is not None:
            self._read_declared(message["headers"]["id"])
        while not self._route(message, options, batch):
            self._read_declared(message["headers"]["id"])

    def _route(self, plain_message: dict[str, Any], options: Mapping[str, Any], batch: Any) -> bool:
        """Publish a message as its task asks. False: what tasks ask for has changed since it was read."""
        message = {**plain_message, "headers": dict(plain_message["headers"])}
        headers = message["headers"]
        given = {**self._declared.get(headers["task"], {}), **(headers.get("jetq") or {})}
        if given:
            headers["jetq"] = given
        if given.get("ledger") is False:
            message["properties"]["delivery_info"]["routing_key"] = keys.PLAIN
            more = {} if batch is None else {"_publish_batch": batch}
            super()._put(keys.PLAIN, message, **more)  # type: ignore[misc]
            return True
        number = self._get_message_priority(message)  # type: ignore[attr-defined]
        default = options.get("jetq_strategy", strategies.DEFAULT)
        order = (
            order_for(headers["task"], given, number, default)
            if given
            else usual_order(headers["task"], number, default)
        )
        parcel = parcel_for(message, order.needs)
        args = orders.publish_args(
            order,
            strategies.get(order.strategy).how,
            [parcel],
            wait_for_node=bool(given.get("wait_for_node")),
            declared=self._declared_version if batch is None else "-",
        )
        if batch is not None:
            script = scripts.script("publish")
            batch.add("eval", script.text, 1, self.global_keyprefix, *args)  # type: ignore[attr-defined]
            return True
        answer = self._ask(parcel.job_id, "publish", *args)
        if answer:
            self._tell(orders.read_placed(order, [parcel], answer))
            if given.get("durable"):
                with self.conn_or_acquire() as client:  # type: ignore[attr-defined]
                    wait_for_disk(client, self.global_keyprefix, parcel.job_id)  # type: ignore[attr-defined]
        return bool(answer)

    def _read_declared(self, job_id: str) -> None:
        prefix = self.global_keyprefix  # type: ignore[attr-defined]
        version = self._ask(job_id, None, "HGET", f"{prefix}routes", "declared")  # before what it names
        rows = self._ask(job_id, None, "HGETALL", f"{prefix}declared")
        self._declared_version = "" if version is None else _text(version)
        self._declared = {_text(name): json.loads(options) for name, options in rows.items()}

    def _ask(self, job_id: str, script: str | None, *args: Any) -> Any:
        """Run a script of the ledger, or one command (``script`` None), twice at most, or patiently."""
        tries = 0
        while True:
            try:
                with self.conn_or_acquire() as client:  # type: ignore[attr-defined]
                    return self._run(client, script, *args)
            except _LOST as exc:
                tries += 1
                if tries > 1 and not self.patient:
                    raise PublishUnknown(job_id) from exc
                time.sleep(min(1.0, 0.05 * tries) * (0.5 + random.random()) if self.patient else 0)

    def _run(self, client: Any, script: str | None, *args: Any) -> Any:
        """Run past kombu's prefixing: the ledger's scripts get full keys."""
        if script is None:
            return redis.Redis.execute_command(client, *args)
        return run_script(client, scripts.script(script), self.global_keyprefix, args)  # type: ignore[attr-defined]

    def _tell(self, placed: list[Placed]) -> None:
        seen = getattr(_local, "placed", None)
        if seen is not None:
            seen += placed
        elif placed[0].verdict == "refused":
            raise PublishRefused(placed[0].job_id, placed[0].why)

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        """Put back what was popped and not started, under the token it has."""
        pub = message.headers.get("jetq_pub")
        if pub is None:
            super()._restore(message, leftmost)  # type: ignore[misc]
            return
        self._ask(message.headers["id"], "put_back", message.headers["id"], pub)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Channel(RoutedChannel, stock.Channel):
    """redis://, rediss:// and unix sockets."""


class Transport(stock.Transport):
    """redis://, rediss:// and unix sockets."""

    Channel = Channel


class SentinelChannel(RoutedChannel, stock.SentinelChannel):
    """sentinel://."""


class SentinelTransport(stock.SentinelTransport):
    """sentinel://."""

    Channel = SentinelChannel


def install() -> None:
    """Make kombu use these channels for redis, rediss and sentinel URLs: TLS and failover keep working."""
    for name, cls in (("redis", Transport), ("rediss", Transport), ("sentinel", SentinelTransport)):
        aliases.TRANSPORT_ALIASES[name] = f"{__name__}:{cls.__name__}"
        aliases._transport_cache.pop(name, None)
