"""What a stream sees is given over HTTP, picture by picture, to those who know the token, for as long as they look."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

from jetq.service.jobfiles import previews
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.peephole import address_of
from jetq.service.jobfiles.previews import MOST_WATCHERS
from jetq.service.jobfiles.remote import NodePort, NotThere, PortFault
from jetq.service.jobfiles.server import FileServer
from jetq.video.analyzers.base import Result
from jetq.video.live.preview import Preview
from jetq.video.live.sink import Seen


@pytest.fixture
def port(server: FileServer) -> NodePort:
    return NodePort(server.door.as_text())


class Stream:
    """A stream that looks at twenty frames a second."""

    def __init__(self, folders: JobFolders, stream_id: str) -> None:
        self.frozen, self._over = threading.Event(), threading.Event()
        self._preview = Preview(address_of(folders.root, stream_id))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.05):
            number += 1
            picture = np.full((90, 160, 3), number % 200, np.uint8)
            if not self.frozen.is_set():
                self._preview.offer(Seen("gate", "t", number, 1.8e9, Result(0.1), lambda shown=picture: shown))
        self._preview.close()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def stream(folders: JobFolders) -> Iterator[Stream]:
    made = Stream(folders, "yard/gate")
    yield made
    made.end()


def shown(port: NodePort, job_id: str) -> bytes | None:
    try:
        return port.preview(job_id)
    except NotThere:
        return None


def connect(server: FileServer, path: str, token: str | None = None) -> socket.socket:
    parts = urlsplit(server.door.url)
    peer = socket.create_connection((parts.hostname, parts.port), timeout=10)
    peer.sendall(f"GET {path} HTTP/1.1\r\nAuthorization: Bearer {token or server.door.token}\r\n\r\n".encode())
    return peer


def watch(server: FileServer, job_id: str) -> Iterator[bytes]:
    """Yield what a stream shows, one picture after the other, until its node says that it was the last."""
    connection = http.client.HTTPConnection(urlsplit(server.door.url).netloc, timeout=10)
    with contextlib.closing(connection):
        head = {"Authorization": f"Bearer {server.door.token}"}
        connection.request("GET", f"/jobs/{quote(job_id, safe='')}/preview", headers=head)
        answer = connection.getresponse()
        while True:
            boundary, _kind, length, _empty = (answer.readline() for _ in range(4))
            if boundary == b"--jetq-frame--\r\n":
                return
            yield answer.read(int(length.partition(b":")[2]))
            answer.read(2)


def waits(server: FileServer, path: str) -> bool:
    """Whether who asks is let in, where no picture comes: who is turned away is told at once."""
    with connect(server, path) as peer:
        return not select.select([peer], [], [], 0.5)[0]


def status(server: FileServer, path: str, token: str | None = None) -> int:
    with connect(server, path, token) as peer:
        return int(peer.recv(4096).split()[1])


def test_one_picture(port, stream, wait_until):
    jpeg = wait_until(lambda: shown(port, "yard/gate"))

    assert jpeg[:2] == b"\xff\xd8"
    assert jpeg[-2:] == b"\xff\xd9"


def test_pictures_come_one_after_the_other_until_the_stream_ends(port, server, stream, wait_until):
    wait_until(lambda: shown(port, "yard/gate"))
    watched = watch(server, "yard/gate")
    first, second, third = next(watched), next(watched), next(watched)
    stream.end()
    rest = list(watched)

    assert len({first, second, third}) == 3
    assert all(jpeg[:2] == b"\xff\xd8" and jpeg[-2:] == b"\xff\xd9" for jpeg in (first, third, *rest))
    assert shown(port, "yard/gate") is None


def test_it_is_what_a_browser_takes_for_a_moving_picture(server, port, stream, wait_until):
    wait_until(lambda: shown(port, "yard/gate"))
    connection = http.client.HTTPConnection(*urlsplit(server.door.url).netloc.split(":"), timeout=10)
    connection.request("GET", "/jobs/yard%2Fgate/preview", headers={"Authorization": f"Bearer {server.door.token}"})
    answer = connection.getresponse()
    lines = [answer.readline() for _ in range(4)]
    connection.close()

    assert answer.getheader("Content-Type") == "multipart/x-mixed-replace; boundary=jetq-frame"
    assert answer.getheader("Cache-Control") == "no-store"
    assert lines[:2] == [b"--jetq-frame\r\n", b"Content-Type: image/jpeg\r\n"]
    assert lines[2].startswith(b"Content-Length: ")
    assert lines[3] == b"\r\n"


@pytest.mark.parametrize("query", ["", "?frame=1"])
def test_what_is_not_here_and_who_has_no_token(server, stream, query):
    assert status(server, f"/jobs/other/preview{query}") == 404
    assert status(server, f"/jobs/yard%2Fgate/preview{query}", token="wrong") == 401
    assert status(server, "/jobs/yard%2Fgate/preview/x") == 404


@pytest.mark.parametrize("query", ["", "?frame=1"])
def test_a_stream_without_pictures_is_told_soon(server, port, stream, wait_until, monkeypatch, query):
    wait_until(lambda: shown(port, "yard/gate"))
    monkeypatch.setattr(previews, "FIRST_S", 0.3)
    stream.frozen.set()

    wait_until(lambda: status(server, f"/jobs/yard%2Fgate/preview{query}") == 503)
    with pytest.raises(PortFault, match="has no picture of it now"):
        port.preview("yard/gate")


def test_no_more_than_some_watch_and_others_are_still_answered(server, port, stream, wait_until):
    wait_until(lambda: shown(port, "yard/gate"))
    held = [connect(server, "/jobs/yard%2Fgate/preview") for _ in range(MOST_WATCHERS)]
    heads = [peer.recv(64) for peer in held]
    refused = status(server, "/jobs/yard%2Fgate/preview")
    listed = status(server, "/jobs/yard%2Fgate/files")
    for peer in held:
        peer.close()

    assert all(head.startswith(b"HTTP/1.1 200") for head in heads)
    assert (refused, listed) == (503, 200)
    wait_until(lambda: status(server, "/jobs/yard%2Fgate/preview") == 200)


def test_who_hangs_up_while_nothing_comes_gives_the_place_back(server, port, stream, wait_until):
    wait_until(lambda: shown(port, "yard/gate"))
    held = [connect(server, "/jobs/yard%2Fgate/preview") for _ in range(MOST_WATCHERS)]
    for peer in held:
        peer.recv(64)
    stream.frozen.set()
    while ready := select.select(held, [], [], 0.4)[0]:  # what is on its way would be seen to reach nobody
        for peer in ready:
            assert peer.recv(1 << 16)
    for peer in held:
        peer.close()

    wait_until(lambda: waits(server, "/jobs/yard%2Fgate/preview"))


def test_a_watcher_that_reads_nothing_holds_up_neither_stream_nor_others(server, port, stream, wait_until):
    wait_until(lambda: shown(port, "yard/gate"))
    with connect(server, "/jobs/yard%2Fgate/preview"):
        watched = watch(server, "yard/gate")
        began_s = time.monotonic()
        pictures = [next(watched) for _ in range(4)]

        assert len(set(pictures)) == 4
        assert time.monotonic() - began_s < 5
        watched.close()


def test_a_node_that_stops_ends_what_is_watched(server, port, stream, wait_until):
    wait_until(lambda: shown(port, "yard/gate"))
    watched = watch(server, "yard/gate")
    next(watched)
    server.stop()

    assert len(list(watched)) < 10


def test_the_address_and_its_key_are_told_apart(port: NodePort, server: FileServer):
    url, header = port.live("yard/gate")

    assert url == f"{server.door.url}/jobs/yard%2Fgate/preview"
    assert server.door.token not in url
    assert header == f"Authorization: Bearer {server.door.token}"
