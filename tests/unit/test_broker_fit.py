"""Every server that cannot serve is refused with one clear line, within seconds; nothing of a password is shown."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable

import pytest

from jetq.broker import check
from jetq.errors import BrokerDown, BrokerUnfit


@pytest.fixture
def answering():
    """Give ``answering(reply) -> port``: a server that answers each chunk it reads with what ``reply`` makes of it."""
    servers = []

    def start(reply: Callable[[bytes], bytes]) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer:
                        while chunk := peer.recv(65536):
                            peer.sendall(reply(chunk))

        threading.Thread(target=serve, daemon=True).start()
        return server.getsockname()[1]

    yield start
    for server in servers:
        server.close()


def saying(**lines: object) -> Callable[[bytes], bytes]:
    """What a server of these facts answers: INFO with them, everything else with an error."""
    text = "".join(f"{name}:{value}\r\n" for name, value in lines.items())
    info = f"${len(text)}\r\n{text}\r\n".encode()

    def reply(chunk: bytes) -> bytes:
        return b"".join(
            info if b"INFO" in part.split(b"\r\n")[1:3] else b"-ERR no\r\n" for part in chunk.split(b"*")[1:]
        )

    return reply


def test_a_fit_server_says_what_it_is(redis_url):
    facts = check(redis_url)

    assert facts.kind in ("redis", "valkey")
    assert len(facts.run_id) == 40


def test_a_server_that_loads_its_data_is_not_there_yet(answering):
    port = answering(saying(redis_version="7.2.4", redis_mode="standalone", run_id="x", loading=1))

    with pytest.raises(BrokerDown, match="still loading its data; try again"):
        check(f"redis://127.0.0.1:{port}")


def test_a_unix_socket_is_a_broker(start_broker, tmp_path):
    path = tmp_path / "s"
    start_broker("--unixsocket", str(path))

    assert check(f"unix://{path}").run_id == check(f"redis+socket://{path}").run_id


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"redis_version": "6.0.16", "redis_mode": "standalone"}, "is version 6.0.16; jetq needs Redis or Valkey 6.2"),
        ({"redis_version": "7.2.4", "cluster_enabled": 1}, "runs as a Redis Cluster"),
        ({"redis_version": "7.2.4", "redis_mode": "sentinel"}, "write sentinel://"),
        ({"redis_version": "7.2.4", "role": "slave"}, "read-only replica"),
    ],
)
def test_a_server_that_says_it_is_unfit_is_refused(answering, facts, complaint):
    port = answering(saying(**facts))

    with pytest.raises(BrokerUnfit, match=complaint):
        check(f"redis://127.0.0.1:{port}")


def test_a_real_cluster_node_is_refused(start_broker):
    server = start_broker("--cluster-enabled", "yes")

    with pytest.raises(BrokerUnfit, match="runs as a Redis Cluster"):
        check(server.url)


def test_a_replica_is_refused(start_broker):
    master = start_broker()
    replica = start_broker("--replicaof", "127.0.0.1", str(master.port))

    with pytest.raises(BrokerUnfit, match="read-only replica"):
        check(replica.url)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis+cluster://a:1", "cannot use Redis Cluster"),
        ("amqp://a:1", "amqp:// cannot be a broker: give redis://"),
        ("127.0.0.1:6379", "'127.0.0.1:6379' cannot be a broker"),
        ("redis://127.0.0.1:port", "no usable broker URL"),
        ("redis://[::1", "no usable broker URL"),
        ("sentinel://127.0.0.1:1", "names no master; add [?]master_name=NAME"),
    ],
)
def test_a_url_that_cannot_be_a_broker_is_refused(url, complaint):
    with pytest.raises(BrokerUnfit, match=complaint):
        check(url)


@pytest.mark.parametrize("given", ["", ":wrong-secret@"])
def test_a_wrong_password_is_refused_and_not_shown(start_broker, given):
    server = start_broker("--requirepass", "right-secret")
    url = f"redis://{given}127.0.0.1:{server.port}"

    with pytest.raises(BrokerUnfit, match="refuses the password") as caught:
        check(url)

    assert "wrong-secret" not in str(caught.value)
    assert check(f"redis://:right-secret@127.0.0.1:{server.port}").run_id


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1", "unix:///nowhere/socket", "sentinel://127.0.0.1:1?master_name=m"]
)
def test_a_broker_that_is_down_is_said_to_be_down(url):
    with pytest.raises(BrokerDown) as caught:
        check(url)

    assert caught.value.exit_code == 69
    assert "\n" not in str(caught.value)


def test_a_frozen_broker_is_down_within_seconds(start_broker):
    server = start_broker()
    server.freeze()
    begun_s = time.monotonic()

    with pytest.raises(BrokerDown, match="no answer within 2 s"):
        check(server.url)

    assert time.monotonic() - begun_s < 6
    server.thaw()


def test_tls_to_a_plain_port_is_named(redis_url):
    with pytest.raises(BrokerUnfit, match="does not speak TLS; write redis://"):
        check(redis_url.replace("redis://", "rediss://"))


def test_a_plain_greeting_to_something_else_is_no_redis(answering):
    port = answering(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with pytest.raises(BrokerUnfit, match="no Redis or Valkey server"):
        check(f"redis://127.0.0.1:{port}")


def test_a_tls_port_is_named_and_its_certificate_is_asked_for(tmp_path):
    subprocess.run(  # noqa: S602 - a constant line
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -keyout key -out crt",
        shell=True,
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def greet():
        for _ in range(2):
            peer, _ = listener.accept()
            try:
                context.wrap_socket(peer, server_side=True).close()
            except OSError:
                peer.close()

    thread = threading.Thread(target=greet, daemon=True)
    thread.start()

    with pytest.raises(BrokerUnfit, match=r"is not trusted; add [?]ssl_ca_certs=FILE"):
        check(f"rediss://127.0.0.1:{port}")
    with pytest.raises(BrokerDown, match="if it wants TLS, write rediss://"):
        check(f"redis://127.0.0.1:{port}")

    thread.join(10)
    listener.close()
