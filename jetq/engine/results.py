"""Celery's Redis result backend, with a lazy subscription and results stored by the script that ends a job."""

from __future__ import annotations

from typing import Any

from celery import states
from celery.app import backends
from celery.backends.redis import RedisBackend as Stock
from celery.backends.redis import SentinelBackend as StockSentinel

from jetq.engine import current
from jetq.store.base import StoredResult

#: A result that nobody reads is kept this long where the app sets no limit (s).
_TTL_S = 24 * 3600
#: Celery's claim of who is sending a chord's body; "done" once it has been sent.
_DROP_CLAIM = "if redis.call('GET', KEYS[1]) ~= 'done' then redis.call('DEL', KEYS[1]) end"


class _Folding:
    """What jetq adds to Celery's Redis backends."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Subscribe only when somebody waits: a SUBSCRIBE per publish costs 23 % and blocks on a frozen broker."""

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **kwargs: Any) -> Any:
        """Count a header. Where it is counted again, who did so first may have died before the body was sent."""
        run = current.run()
        if run is not None and run.outcome:
            self.drop_chord_claim(request)
        return super().on_chord_part_return(request, state, result, **kwargs)  # type: ignore[misc]

    def drop_chord_claim(self, request: Any) -> None:
        """Let a chord's body be sent by whoever comes next.

        Celery lets the claim of a dead sender stand for half a minute, and then nobody asks again. A second sender does
        no harm: the body's id was drawn with the chord, so the ledger takes it once.
        """
        me: Any = self
        if request.chord and request.group:
            me.client.eval(_DROP_CLAIM, 1, me.get_key_for_group(request.group, ".c"))

    def _store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **kwargs: Any
    ) -> Any:
        run = current.run()
        chord = request is not None and getattr(request, "chord", None)
        folds = run is not None and run.folds and run.job_id == task_id
        if run is None or not folds or chord or state not in (states.SUCCESS, states.FAILURE):
            return super()._store_result(  # type: ignore[misc]
                task_id, result, state, traceback=traceback, request=request, **kwargs
            )
        me: Any = self
        meta = me._get_result_meta(result=result, state=state, traceback=traceback, request=request)
        meta["task_id"] = task_id
        payload = me.encode(meta)
        if len(payload) > run.most_bytes:  # it is Celery's to keep, but nothing for a script that the server waits for
            return super()._store_result(  # type: ignore[misc]
                task_id, result, state, traceback=traceback, request=request, **kwargs
            )
        key = me.get_key_for_task(task_id)
        ttl_s = int(me.expires) if me.expires else _TTL_S
        run.stored = StoredResult(key.decode() if isinstance(key, bytes) else key, payload, ttl_s)
        return result


class RedisBackend(_Folding, Stock):
    """redis://, rediss:// and unix sockets."""


class SentinelBackend(_Folding, StockSentinel):
    """sentinel://."""


def drop_chord_claim(backend: Any, request: Any) -> None:
    """The same on any backend; others than ours have no such claim."""
    if isinstance(backend, _Folding):
        backend.drop_chord_claim(request)


def install() -> None:
    """Make Celery use these backends for redis, rediss and sentinel URLs."""
    for name, cls in (("redis", RedisBackend), ("rediss", RedisBackend), ("sentinel", SentinelBackend)):
        backends.BACKEND_ALIASES[name] = f"{__name__}:{cls.__name__}"
