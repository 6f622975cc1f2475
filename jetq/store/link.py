"""One client of the broker: bounded waits, scripts by hash, plain reads. The only user of ``redis`` in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from jetq.errors import BrokerDown, BrokerFull, BrokerUnfit, NotDurable
from jetq.model.address import Address
from jetq.store import keys, scripts

#: Socket and connect timeout (s): with one retry a frozen broker is an error within 6 s.
TIMEOUT_S = 2.0
#: A write that is not on disk after this long, so often asked, is not promised (ms; everysec: within a second or two).
DISK_MS, DISK_TRIES = 1500, 3
_LOST = (redis.ConnectionError, redis.TimeoutError)
_AWAY = "the broker does not answer ({}); is it running?"


def connect(url: str, *, timeout_s: float = TIMEOUT_S, retries: int = 1) -> redis.Redis:
    """Return a client with bounded waits. All ledger calls may be repeated, so one retry is safe."""
    address = Address.parse(url)
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "retry": Retry(NoBackoff(), retries),
        "retry_on_error": list(_LOST),
    }
    if address.scheme == "unix":
        return redis.Redis.from_url(address.client_url, **options)
    options |= {"socket_connect_timeout": timeout_s, "socket_keepalive": True}
    if address.master is None:
        return redis.Redis.from_url(address.client_url, **options)
    asked = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "retry": Retry(NoBackoff(), 0)}
    login = {"db": address.db, "username": address.username, "password": address.password}
    sentinels = Sentinel(list(address.sentinels), sentinel_kwargs=asked)
    return cast("redis.Redis", sentinels.master_for(address.master, **login, **options))


def wait_for_disk(client: redis.Redis, prefix: str, job_id: str) -> None:
    """Return once everything that was written before is in the file of the server, on its disk.

    The file is written in order, so a write of one's own that has arrived there vouches for all before it.

    Raises:
        NotDurable: the job is taken, but the server does not say, or cannot say, that it is on its disk.
    """
    ask: Callable[..., Any] = redis.Redis.execute_command  # past kombu's prefixing
    try:
        with client.client() as one:
            for _ in range(DISK_TRIES):
                ask(one, "SET", f"{prefix}durable", "1")
                if ask(one, "WAITAOF", 1, 0, DISK_MS)[0]:
                    return
    except redis.ResponseError as exc:
        raise NotDurable(job_id, f"it takes appendonly yes and Valkey, or Redis >= 7.2 ({exc})") from exc
    except _LOST as exc:
        raise NotDurable(job_id, "the broker did not answer") from exc
    raise NotDurable(job_id, f"not within {DISK_TRIES * DISK_MS / 1000:g} s")


class Link:
    """A client and the prefix of a cluster's keys."""

    def __init__(self, client: redis.Redis, cluster: str, *, ttl_s: int = 24 * 3600) -> None:
        self.client = client
        self.prefix = keys.prefix(cluster)
        self._ttl_s = ttl_s

    def wait_for_disk(self, job_id: str) -> None:
        """Return once the job, and everything before it, is on the broker's disk.

        Raises:
            NotDurable: it is taken, but that is not known.
        """
        wait_for_disk(self.client, self.prefix, job_id)

    def _run(self, name: str, *args: Any) -> Any:
        try:
            return run_script(self.client, scripts.script(name), self.prefix, args)
        except redis.exceptions.OutOfMemoryError as exc:
            raise BrokerFull from exc
        except _LOST as exc:
            raise BrokerDown(_AWAY.format(exc)) from exc

    def _run_ahead(self, name: str, *args: Any) -> Callable[[], Any]:
        """Send a script now; what this returns must be called once, and gives the answer."""
        return send_ahead(self.client, scripts.script(name), self.prefix, args, lambda: self._run(name, *args))

    def _read(self, command: str, *args: Any) -> Any:
        with _told():
            return self.client.execute_command(command, *writable(args))

    def _read_all(self, *commands: Sequence[Any]) -> list[Any]:
        """Return the answers to reads that are sent in one go."""
        return self._send(commands, atomic=False)

    def _together(self, *commands: Sequence[Any]) -> None:
        """Run commands as one step."""
        self._send(commands, atomic=True)

    def _send(self, commands: Sequence[Sequence[Any]], *, atomic: bool) -> list[Any]:
        with _told(), self.client.pipeline(transaction=atomic) as pipe:
            for command in commands:
                pipe.execute_command(*writable(command))
            return list(pipe.execute())

    def _names(self) -> list[str]:
        """Return the names of all known nodes, sorted."""
        return sorted(text(name) for name in self._read("SMEMBERS", f"{self.prefix}nodes"))

    def _hash(self, key: str) -> dict[str, str]:
        return fields_of(self._read("HGETALL", self.prefix + key))


@contextmanager
def _told() -> Iterator[None]:
    """Say what a failed question means."""
    try:
        yield
    except redis.exceptions.OutOfMemoryError as exc:
        raise BrokerFull from exc
    except redis.exceptions.NoPermissionError as exc:
        raise BrokerUnfit(f"the broker's user may not ask this ({exc}); use the login of a node") from exc
    except _LOST as exc:
        raise BrokerDown(_AWAY.format(exc)) from exc


def run_script(client: redis.Redis, script: scripts.Script, prefix: str, args: Sequence[Any]) -> Any:
    """Run a script with the client's own retry, past its bookkeeping: that costs 11 us a call, half of the trip."""
    pool = client.connection_pool
    connection, args = pool.get_connection(), writable(args)

    def attempt() -> Any:
        try:
            connection.send_command("EVALSHA", script.sha, 1, prefix, *args)
            return connection.read_response()
        except redis.exceptions.NoScriptError:
            connection.send_command("EVAL", script.text, 1, prefix, *args)
            return connection.read_response()

    try:
        return connection.retry.call_with_retry(attempt, lambda _error: connection.disconnect())
    finally:
        pool.release(connection)


def send_ahead(
    client: redis.Redis, script: scripts.Script, prefix: str, args: Sequence[Any], again: Callable[[], Any]
) -> Callable[[], Any]:
    """Send a script on a connection of its own; what this returns must be called once, and gives the answer.

    ``again`` runs the script the ordinary way, with its retry and its errors: it is asked where the server does not
    know the script yet or refuses it, or the connection broke. So the script must bear a repeat.
    """
    pool = client.connection_pool
    try:
        connection = pool.get_connection()
    except _LOST:
        return again
    try:
        connection.send_command("EVALSHA", script.sha, 1, prefix, *writable(args))
    except _LOST:  # redis-py has closed the connection, here and below
        pool.release(connection)
        return again

    def answer() -> Any:
        try:
            return connection.read_response()
        except (*_LOST, redis.ResponseError):
            pass
        finally:
            pool.release(connection)
        return again()

    return answer


def writable(words: Sequence[Any]) -> Sequence[Any]:
    """Return what can be sent: names of files and words of commands may have bytes in them that are no characters."""
    return [word.encode(errors="replace") if isinstance(word, str) and not word.isascii() else word for word in words]


def text(value: Any) -> str:
    """Return an answer's word; "" for none."""
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)


def fields_of(got: Any) -> dict[str, str]:
    """Return the fields of a hash, as HGETALL gives them."""
    pairs = got.items() if isinstance(got, Mapping) else zip(got[::2], got[1::2], strict=True)
    return {text(k): text(v) for k, v in pairs}
