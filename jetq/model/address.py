"""A broker's URL, as redis-py, kombu and Celery's result backend each want it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from jetq.errors import BrokerUnfit

SCHEMES = ("redis", "rediss", "unix", "redis+socket", "sentinel")
#: The port of a sentinel whose URL names none.
SENTINEL_PORT = 26379
#: The port of a broker whose URL names none.
PORT = 6379


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a plain connection to a broker goes."""

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = None

    def login(self) -> bytes:
        """Return the command that logs in, as the server reads it; nothing where no password is needed."""
        if self.password is None:
            return b""
        words = [word.encode() for word in ("AUTH", self.username, self.password) if word]
        return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)])


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker is."""

    scheme: str  # redis, rediss, unix or sentinel
    client_url: str  # for redis-py; of sentinels: for nobody
    celery_url: str  # for kombu and the result backend
    sentinels: tuple[tuple[str, int], ...] = ()
    master: str | None = None  # the name the sentinels know the broker by
    username: str | None = None  # of the master behind sentinels, as the next two
    password: str | None = None
    db: int = 0

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL.

        Raises:
            BrokerUnfit: jetq cannot use this scheme, or something is missing.
        """
        scheme = _scheme(url)
        if scheme == "sentinel":
            return _of_sentinels(url)
        if scheme in ("unix", "redis+socket"):
            return _of_socket(url.partition("://")[2])
        if scheme == "rediss" and "ssl_cert_reqs=" not in url:  # the backend refuses to guess
            sign = "&" if "?" in url else "?"
            return cls(scheme, url, f"{url}{sign}ssl_cert_reqs=required")
        return cls(scheme, url, url)

    @property
    def endpoint(self) -> Endpoint | None:
        """Where to connect to; None for a unix socket, and for a broker that only sentinels know."""
        if self.scheme not in ("redis", "rediss"):
            return None
        at = urlsplit(self.client_url)
        username, password = (unquote(text) if text else None for text in (at.username, at.password))
        return Endpoint(at.hostname or "localhost", at.port or PORT, self.scheme == "rediss", username, password)


def shown(url: str) -> str:
    """Return the URL with its passwords replaced, fit for logs and messages."""
    return re.sub(r"(://[^/@;]*?:)[^/@;]*@", r"\1***@", url)


def _scheme(url: str) -> str:
    scheme, sign, _ = url.partition("://")
    if sign and scheme in SCHEMES:
        return scheme
    if "cluster" in scheme:
        raise BrokerUnfit("jetq cannot use Redis Cluster (Celery cannot); give a single server or sentinels")
    given = f"{scheme}://" if sign else repr(shown(url))
    raise BrokerUnfit(
        f"{given} cannot be a broker: give redis://HOST:PORT, rediss:// (TLS), unix:///PATH or sentinel://HOST:PORT"
    )


def _of_socket(rest: str) -> Address:
    place, _, query = rest.partition("?")
    asked = parse_qs(query)
    db = (asked.get("db") or asked.get("virtual_host") or ["0"])[0]
    if not db.isdigit():
        raise BrokerUnfit(f"unix://{place}: the database must be a number, not {db!r}")
    return Address("unix", f"unix://{place}?db={db}", f"redis+socket://{place}?virtual_host={db}", db=int(db))


def _of_sentinels(url: str) -> Address:
    try:
        parts = [urlsplit(part if "://" in part else f"sentinel://{part}") for part in url.split(";") if part]
        hosts = tuple((part.hostname or "127.0.0.1", part.port or SENTINEL_PORT) for part in parts)
    except ValueError as exc:
        raise BrokerUnfit(f"{shown(url)} is no usable broker URL: {exc}") from exc
    asked = parse_qs(next((part.query for part in parts if part.query), ""))
    master = asked.pop("master_name", [""])[0]
    if not master:
        raise BrokerUnfit(f"{shown(url)} names no master; add ?master_name=NAME")
    db = next((part.path.strip("/") for part in parts if part.path.strip("/")), "0")
    if not db.isdigit():
        raise BrokerUnfit(f"{shown(url)}: the database must be a number, not {db!r}")
    login = next((part for part in parts if part.password), None)
    secret = f"{login.username or ''}:{login.password}@" if login else ""
    rest = f"?{urlencode(asked, doseq=True)}" if asked else ""
    celery_url = ";".join(f"sentinel://{secret}{_joined(*host)}/{db}" for host in hosts) + rest
    username, password = (login.username or None, login.password) if login else (None, None)
    return Address("sentinel", "", celery_url, hosts, master, username, password, int(db))


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
