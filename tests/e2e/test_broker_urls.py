"""A node works through every kind of broker URL: a unix socket, TLS, sentinels, a password and another database."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jetq import JetQ, Settings, create_app
from jetq.broker import check
from jetq.broker.server import find_binary

ROOT = Path(__file__).resolve().parents[2]
JETQ = [sys.executable, str(ROOT / "jetq" / "_run.py")]
pytestmark = pytest.mark.xdist_group("up")


@pytest.fixture
def with_tls(tmp_path):
    """Give ``with_tls(port) -> (port, certificate)``: the same server behind TLS."""
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "key", "-out", "crt"]
    subprocess.run([*make, *subject], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    listener = socket.create_server(("127.0.0.1", 0))

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                target.sendall(chunk)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(peer: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError):  # ssl.SSLError is one: a probe says nothing and leaves
            outer = context.wrap_socket(peer, server_side=True)
            inner = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=copy, args=(inner, outer), daemon=True).start()
            copy(outer, inner)

    def serve(port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=join, args=(peer, port), daemon=True).start()

    def start(port: int) -> tuple[int, Path]:
        threading.Thread(target=serve, args=(port,), daemon=True).start()
        return listener.getsockname()[1], tmp_path / "crt"

    yield start
    listener.close()


@pytest.fixture
def sentinel(tmp_path, wait_until):
    """Give ``sentinel(line...) -> port``: a sentinel with this configuration."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*lines: str) -> int:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        file = tmp_path / "sentinel.conf"
        file.write_text("\n".join([f"port {port}", "bind 127.0.0.1", f"dir {tmp_path}", *lines, ""]))
        with (tmp_path / "sentinel.log").open("wb") as log:
            started.append(subprocess.Popen([find_binary(), file, "--sentinel"], stdout=log))
        wait_until(lambda: _listens(port), what="the sentinel")
        return port

    yield start
    for one in started:
        one.kill()
        one.wait(10)


@pytest.fixture(params=["unix socket", "unix socket, database 2", "TLS", "sentinels", "password, database 3"])
def url(request, start_broker, with_tls, sentinel, tmp_path):
    """Give the URL of a broker of each kind."""
    if request.param.startswith("unix"):
        start_broker("--unixsocket", str(tmp_path / "s"))
        return f"unix://{tmp_path / 's'}" + ("?db=2" if "2" in request.param else "")
    if request.param == "TLS":
        port, certificate = with_tls(start_broker().port)
        return f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}"
    server = start_broker("--requirepass", "secret")
    if request.param == "sentinels":
        port = sentinel(f"sentinel monitor yard 127.0.0.1 {server.port} 1", "sentinel auth-pass yard secret")
        return f"sentinel://:secret@127.0.0.1:{port}/0;sentinel://127.0.0.1:1?master_name=yard"
    return f"redis://:secret@127.0.0.1:{server.port}/3"


@pytest.fixture
def node(url, tmp_path):
    """Run one node at the broker, started and stopped by the command line."""
    env = {**os.environ, "JETQ_DIR": str(tmp_path / "up"), "JETQ_BROKER_URL": url, "JETQ_GRACE_S": "5"}
    run = {"env": env, "capture_output": True, "text": True, "timeout": 150}
    started = subprocess.run([*JETQ, "up", "-d", "--no-web", "--slots", "1", "--json"], **run)
    logs = "".join(log.read_text()[-3000:] for log in tmp_path.glob("up/logs/*.log"))
    yield started.stdout if started.returncode == 0 else pytest.fail(started.stderr + logs)
    subprocess.run([*JETQ, "down", "--now"], **run)


def test_a_node_works_through_every_kind_of_url(url, node):
    client = JetQ(url)

    result = client.submit("demo.nap", 0.01).result(timeout=60)
    many = [job.result(timeout=60) for job in client.submit_many("demo.nap", [[0.01], [0.02]])]
    with create_app(Settings(broker_url=url)) as app:
        through_celery = app.send_task("demo.nap", [0.01]).get(timeout=60)

    assert (result, many, through_celery) == (0.01, [0.01, 0.02], 0.01)
    assert check(url).run_id
    assert "secret" not in node


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
