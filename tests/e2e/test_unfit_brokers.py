"""A broker that cannot serve is one clear line and exit code 2 from every verb, and one clear error from Python."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from jetq import JetQ
from jetq.errors import BrokerUnfit

#: One verb of each kind: starts a node, starts all, sends, reads.
VERBS = [
    ("worker", "--name", "a"),
    ("up", "--no-web", "--dir", "{dir}"),
    ("submit", "demo.nap", "0"),
    ("job", "list"),
    ("node", "list", "--json"),
    ("route", "demo.nap"),
]


@pytest.fixture
def old_server() -> Iterator[int]:
    """Give the port of a server that says what Redis 6.0 says."""
    info = b"redis_version:6.0.16\r\nredis_mode:standalone\r\nrole:master\r\nrun_id:" + b"0" * 40 + b"\r\n"
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            while chunk := peer.recv(65536):
                for command in chunk.split(b"*")[1:]:
                    known = (
                        b"$%d\r\n%s\r\n" % (len(info), info) if b"INFO" in command.split(b"\r\n")[1:3] else b"+OK\r\n"
                    )
                    peer.sendall(known)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


@pytest.fixture(params=["old", "cluster URL", "cluster node", "wrong password", "TLS to a plain port", "other scheme"])
def unfit(request, start_broker, old_server) -> tuple[str, str]:
    """Give the URL of a broker of each kind, and what has to be said."""
    if request.param == "old":
        return f"redis://127.0.0.1:{old_server}/0", "is version 6.0.16; jetq needs Redis or Valkey 6.2 or newer"
    if request.param == "cluster URL":
        return "redis+cluster://127.0.0.1:7000", "cannot use Redis Cluster"
    if request.param == "other scheme":
        return "amqp://guest@127.0.0.1", "amqp:// cannot be a broker: give redis://"
    if request.param == "cluster node":
        return start_broker("--cluster-enabled", "yes").url, "runs as a Redis Cluster"
    if request.param == "wrong password":
        url = start_broker("--requirepass", "right-secret").url
        return url.replace("redis://", "redis://:wrong-secret@"), "refuses the password"
    return start_broker().url.replace("redis://", "rediss://"), "does not speak TLS; write redis://"


def test_a_broker_that_cannot_serve_is_one_line_and_exit_2_from_every_verb(unfit, tmp_path):
    url, line = unfit
    env = {**os.environ, "JETQ_BROKER_URL": url}
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "jetq", *(word.format(dir=tmp_path / "up") for word in verb)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for verb in VERBS
    ]

    said = [(run.communicate(timeout=60), run.returncode) for run in runs]

    assert [code for _, code in said] == [2] * len(VERBS), said
    for (out, err), _ in said:
        assert (out, err.count("\n")) == ("", 1), err
        assert err.startswith("jetq: ")
        assert line in err
        assert "secret" not in err
    with pytest.raises(BrokerUnfit, match=line.split(";")[0]):
        JetQ(url)
