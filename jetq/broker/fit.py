"""Say whether a server can be jetq's broker: scheme, password, version, mode. One clear line for each way it cannot."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from jetq.errors import BrokerDown, BrokerUnfit
from jetq.model.address import Address, shown

#: The oldest server whose commands Celery's transport and the ledger's scripts use.
OLDEST = (6, 2)
#: Longest wait for a connection and for an answer (s).
TIMEOUT_S = 2.0
#: Signs of a server that is no Redis.
_NO_REDIS = (redis.exceptions.InvalidResponse, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server that can serve jetq."""

    kind: str  # redis or valkey
    version: str  # as the server compares it: Valkey names the Redis version it stands for
    run_id: str  # drawn at each start of the server


def check(url: str) -> ServerFacts:
    """Ask the server behind ``url`` what it is. Takes at most a few seconds.

    Raises:
        BrokerDown: nothing answers there.
        BrokerUnfit: what answers cannot serve jetq; the message says why and what to do.
    """
    address = Address.parse(url)
    scheme, where = address.scheme, shown(url)
    try:
        client = open_client(address)
        try:
            answer: Any = client.info()
        finally:
            client.close()
    except (redis.exceptions.AuthenticationError, redis.exceptions.AuthorizationError) as exc:
        raise _refused(where, exc) from exc
    except MasterNotFoundError as exc:
        raise BrokerDown(f"no sentinel of {where} answers and knows a living master of that name") from exc
    except redis.exceptions.BusyLoadingError as exc:
        raise _loading(where) from exc
    except redis.exceptions.TimeoutError as exc:
        raise _silent(url, scheme) from exc
    except redis.exceptions.ConnectionError as exc:
        raise _unreachable(where, scheme, exc) from exc
    except redis.exceptions.ResponseError as exc:
        raise _refused(where, exc) from exc
    except _NO_REDIS as exc:
        raise BrokerUnfit(f"what answers at {where} is no Redis or Valkey server; check host and port") from exc
    except (ValueError, OSError) as exc:
        raise BrokerUnfit(f"{where} is no usable broker URL: {exc}") from exc
    facts = _judge(where, answer)
    if int(answer.get("loading", 0)):  # most servers answer INFO meanwhile, and refuse all else
        raise _loading(where)
    return facts


def open_client(address: Address) -> redis.Redis:
    """Return a client that waits ``TIMEOUT_S`` and tries once. Nothing is sent yet, except to sentinels."""
    options: dict[str, Any] = {"socket_timeout": TIMEOUT_S, "retry": Retry(NoBackoff(), 0), "protocol": 2}
    if address.scheme == "unix":
        return redis.Redis.from_url(address.client_url, **options)
    options["socket_connect_timeout"] = TIMEOUT_S
    if address.master is None:
        return redis.Redis.from_url(address.client_url, **options)
    host, port = Sentinel(list(address.sentinels), sentinel_kwargs=options).discover_master(address.master)
    return redis.Redis(host, port, address.db, address.password, username=address.username, **options)


def _judge(where: str, answer: dict[str, Any]) -> ServerFacts:
    if "sentinel" in (answer.get("redis_mode"), answer.get("server_mode")):
        raise BrokerUnfit(f"{where} is a sentinel; write sentinel:// and add ?master_name=NAME")
    version = str(answer.get("redis_version", "0"))
    kind = "valkey" if answer.get("server_name") == "valkey" else "redis"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        raise BrokerUnfit(f"the broker {where} is version {version}; jetq needs Redis or Valkey 6.2 or newer")
    if int(answer.get("cluster_enabled", 0)) or answer.get("redis_mode") == "cluster":
        raise BrokerUnfit(f"the broker {where} runs as a Redis Cluster, which Celery cannot use; give a single server")
    if answer.get("role") == "slave":
        raise BrokerUnfit(f"the broker {where} is a read-only replica; give its master or sentinel://")
    return ServerFacts(kind, version, str(answer.get("run_id", "")))


def _refused(where: str, exc: Exception) -> BrokerUnfit:
    text = str(exc)
    if isinstance(exc, redis.exceptions.NoPermissionError) or "NOPERM" in text:
        return BrokerUnfit(f"the broker {where} does not let this user ask INFO; widen its ACL")
    if isinstance(exc, redis.exceptions.AuthenticationError) or re.search("NOAUTH|WRONGPASS|password", text):
        return BrokerUnfit(f"the broker {where} refuses the password; write it as redis://:PASSWORD@HOST:PORT")
    return BrokerUnfit(f"the broker {where} refuses: {text}")


def _loading(where: str) -> BrokerDown:
    return BrokerDown(f"the broker {where} is still loading its data; try again in a moment")


def _unreachable(where: str, scheme: str, exc: Exception) -> BrokerDown | BrokerUnfit:
    causes: list[BaseException | None] = [exc]
    while causes[-1] is not None:
        causes.append(causes[-1].__cause__ or causes[-1].__context__)
    if any(isinstance(c, ssl.SSLCertVerificationError) for c in causes):
        return BrokerUnfit(f"the certificate of the broker {where} is not trusted; add ?ssl_ca_certs=FILE")
    if any(isinstance(c, ssl.SSLError) for c in causes):
        return _no_tls(where)
    if re.search("closed by server|while reading.*reset by peer", str(exc)):
        hint = "give its plain port" if scheme == "rediss" else "if it wants TLS, write rediss://"
        return BrokerDown(f"the broker {where} closes the connection at once; {hint}")
    reason = str(exc).rstrip(".")
    return BrokerDown(f"the broker {where} does not answer ({reason}); is it running? `jetq up` starts one")


def _silent(url: str, scheme: str) -> BrokerDown | BrokerUnfit:
    """A plain server takes a TLS greeting for the start of a long line, and waits: ask it plainly."""
    if scheme == "rediss":
        plain = open_client(Address.parse("redis" + url[len("rediss") :].partition("?")[0]))
        try:
            plain.ping()
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError):
            pass
        except redis.exceptions.ResponseError:
            return _no_tls(shown(url))
        else:
            return _no_tls(shown(url))
        finally:
            plain.close()
    return BrokerDown(f"the broker {shown(url)} gave no answer within {TIMEOUT_S:.0f} s; is it up, and the port right?")


def _no_tls(where: str) -> BrokerUnfit:
    return BrokerUnfit(f"the broker {where} does not speak TLS; write redis:// or give its TLS port")
