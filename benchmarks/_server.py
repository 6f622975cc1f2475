"""A server of its own for one benchmark: the one that `jetq up` would start, in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jetq.broker.folder import UpFolder
from jetq.broker.server import EmbeddedServer, Listen
from jetq.store.redis import RedisStore, connect


@contextmanager
def server(listen: str | None = None) -> Iterator[str]:
    """Start it with jetq's own settings (append-only file, fsync each second); yield its URL; stop it.

    ``listen``: an address of this machine by which others reach it; its URL is then the one that they use.
    """
    with tempfile.TemporaryDirectory(prefix="jetq-bench-") as folder:
        up = UpFolder(Path(folder))
        up.acquire()
        embedded = EmbeddedServer(up, Listen(listen) if listen else None)
        embedded.start()
        try:
            yield embedded.join_url or embedded.url
        finally:
            embedded.stop()
            up.release()


def fresh_store(url: str, cluster: str = "bench") -> RedisStore:
    """Empty the server and return a ledger on it."""
    store = RedisStore(connect(url), cluster)
    store.client.flushall()
    return store
