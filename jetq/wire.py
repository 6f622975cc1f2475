"""The composition root: settings become a store, an app, a node. The only file with imports inside functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetq.config import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from celery import Celery

    from jetq.engine.produce import Call
    from jetq.store.base import Placed
    from jetq.store.redis import RedisStore


def broker_url(settings: Settings) -> str:
    """Return the broker to use, found and checked.

    Raises:
        UsageError: none was named and no ``jetq up`` runs here. BrokerError: it cannot be used.
    """
    from jetq import broker

    url = broker.find(settings)
    broker.check(url)
    return url


def open_store(settings: Settings, url: str | None = None) -> RedisStore:
    """Return the ledger. ``url``: of a broker that was checked before; None: find and check it."""
    from jetq.store.redis import RedisStore, connect

    return RedisStore(connect(url or broker_url(settings)), settings.cluster, ttl_s=settings.result_ttl_s)


class Producer:
    """Sends jobs of one cluster. The Celery app behind it is made for the first of them."""

    def __init__(self, settings: Settings, store: RedisStore) -> None:
        """Send through the broker that ``settings`` name; it was checked before."""
        self._settings = settings
        self._store = store
        self._app: Celery | None = None

    def submit(self, name: str, call: Call, options: Mapping[str, Any], *, job_id: str | None) -> Placed:
        """Send one job (``options``: fields of ``engine.produce.Options``, which see for the errors)."""
        from jetq.engine import produce

        return produce.submit(self._made(), name, call, produce.Options(**options), job_id=job_id)

    def submit_many(self, name: str, calls: Sequence[Call], options: Mapping[str, Any]) -> list[Placed]:
        """Send many jobs of one task, 200 a script."""
        from jetq.engine import produce

        most = self._settings.max_arg_bytes
        return produce.submit_many(
            self._made(), self._store, name, calls, produce.Options(**options), max_arg_bytes=most
        )

    def _made(self) -> Celery:
        if self._app is None:
            self._app = create_app(self._settings, self._settings.broker_url, stores=False, current=False)
        return self._app


def create_app(settings: Settings | None = None, url: str | None = None, **how: Any) -> Celery:
    """Return a Celery app that publishes through the ledger (``how``: see ``engine.app.create_app``)."""
    from jetq.engine import app as engine

    settings = settings or Settings.from_environ()
    return engine.create_app(settings, url or broker_url(settings), **how)


def install(app: Celery, settings: Settings | None = None) -> Celery:
    """Join an existing Celery app to the cluster, before its first publish: ``jetq.install(app)``.

    The broker is the app's own ``broker_url`` if it names a Redis, else the one jetq would find.
    """
    from jetq.engine import app as engine

    settings = settings or Settings.from_environ()
    own = app.conf.broker_url
    if settings.broker_url is None and own and own.split(":")[0] in ("redis", "rediss", "sentinel"):
        settings = settings.with_(broker_url=own)
    return engine.install(app, settings, broker_url(settings))
