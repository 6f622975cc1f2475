"""The options that many verbs share, and what they lead to: settings, a checked broker, the ledger."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jetq import wire
from jetq.config import Settings
from jetq.errors import UsageError
from jetq.store.redis import RedisStore

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster a verb talks to, as its flags say."""

    broker: str | None
    dir: Path | None
    cluster: str | None

    def settings(self, **more: Any) -> Settings:
        """Return validated settings with the URL of a broker that can be used: given, or of the running `jetq up`.

        Raises:
            UsageError: a bad value, or no broker anywhere.
            BrokerDown, BrokerUnfit: the broker cannot be used.
        """
        settings = Settings.from_environ(broker_url=self.broker, dir=self.dir, cluster=self.cluster, **more)
        return settings.with_(broker_url=wire.broker_url(settings))

    def ledger(self) -> RedisStore:
        """Return the ledger of the cluster."""
        return self.ledger_of(self.settings())

    @staticmethod
    def ledger_of(settings: Settings) -> RedisStore:
        """Return the ledger of settings that came from here."""
        return wire.open_store(settings, settings.broker_url)


def broker_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --broker, --dir and --cluster; the function gets them as one argument ``where``."""

    @functools.wraps(function)
    def call(*args: Any, broker: str | None, dir_: Path | None, cluster: str | None, **rest: Any) -> Any:
        return function(*args, where=Where(broker, dir_, cluster), **rest)

    wrapped: Callable[..., Any] = call
    for add in (
        click.option("--cluster", metavar="NAME", help="Namespace of the cluster on its broker.  [JETQ_CLUSTER]"),
        click.option("--dir", "dir_", metavar="DIR", type=Path, help="Folder of the `jetq up` to use.  [JETQ_DIR]"),
        click.option("--broker", metavar="URL", help="Broker, e.g. redis://HOST:PORT.  [JETQ_BROKER_URL]"),
    ):
        wrapped = add(wrapped)
    return wrapped


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json; the function gets ``as_json``."""
    add = click.option("--json", "as_json", is_flag=True, envvar="JETQ_JSON", help="Print JSON.  [JETQ_JSON]")
    return add(function)


def words(*known: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes a flag's value in the shell."""
    return lambda _ctx, _flag, begun: [word for word in known if word.startswith(begun)]


def byte_count(text: str) -> int:
    """Return the bytes that ``text`` names: plain, or with kB, MB, GB, KiB, MiB, GiB.

    Raises:
        UsageError: no such size.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is no size: write bytes, or for example 512MiB or 2GB")
    step = 1024 if match[3] else 1000
    return int(float(match[1]) * step ** " kmgt".index(match[2].lower() or " "))
