"""Serve the input files by HTTP ranges, so that a node needs no copy of them."""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

from jetq.errors import UsageError
from jetq.log import Log

_log = Log("fileserver")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
#: Seconds a connection may stand still: a slow analyzer reads ahead and then pauses for long.
IDLE_S = 600.0


class FileServer:
    """Some files, each at a URL that cannot be guessed, for as long as the ``with`` block lasts."""

    def __init__(self, files: Sequence[Path], *, host: str = "127.0.0.1") -> None:
        """Listen on a free port of ``host``, the address under which nodes reach this machine.

        Raises:
            UsageError: ``host`` is no address of this machine.
        """
        secret = secrets.token_urlsafe(24)
        self._files = {f"/{secret}/{n}/{quote(p.name)}": p for n, p in enumerate(dict.fromkeys(files))}
        self._paths = {path: url for url, path in self._files.items()}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = _Server((host, 0), family, self._files)
        except OSError as exc:
            raise UsageError(f"{host!r} is no address of this machine ({exc.strerror}); see `ip addr`") from exc
        name = f"[{host}]" if ":" in host else host
        self._base = f"http://{name}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="fileserver", daemon=True)

    def __enter__(self) -> FileServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def sent_bytes(self) -> int:
        """Bytes of files that were asked for and sent so far."""
        return self._server.sent_bytes

    def url(self, path: Path) -> str:
        """Return where ``path`` is served."""
        return self._base + self._paths[path]


def address_towards(broker_url: str) -> str:
    """Return this machine's address on the way to the broker: the one under which the cluster's nodes reach it.

    ``127.0.0.1`` for a broker on a unix socket. Nothing is sent.
    """
    parts = urlsplit(broker_url.split(";", maxsplit=1)[0])
    if "unix" in parts.scheme or "socket" in parts.scheme or not parts.netloc:
        return "127.0.0.1"
    host = parts.hostname or "127.0.0.1"
    for family, kind, protocol, _, address in socket.getaddrinfo(host, parts.port or 6379, type=socket.SOCK_DGRAM):
        with socket.socket(family, kind, protocol) as probe:
            if probe.connect_ex(address) == 0:
                return str(probe.getsockname()[0])
    return "127.0.0.1"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily, files: dict[str, Path]) -> None:
        self.address_family = family
        self.files = files
        self.sent_bytes = 0
        self.counter = threading.Lock()
        super().__init__(address, _Request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that seeks hangs up in the middle: that is no error of ours."""
        _log.debug("fileserver.hung_up", peer=client_address[0])


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "jetq"
    sys_version = ""
    timeout = IDLE_S
    server: _Server

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path = self.server.files.get(self.path)
        if path is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            file = path.open("rb")
        except OSError as exc:
            _log.warning("fileserver.unreadable", file=path.name, why=exc.strerror)
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            asked = self.headers.get("Range")
            span = byte_span(asked, size)
            if span is None:
                self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, ("Content-Range", f"bytes */{size}"))
                return
            first, past = span
            partial = asked is not None and _RANGE.fullmatch(asked.strip()) is not None
            self.send_response(HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(past - first))
            if partial:
                self.send_header("Content-Range", f"bytes {first}-{past - 1}/{size}")
            self._end_headers()
            if with_body and past > first:
                sent = self.connection.sendfile(file, first, past - first)
                with self.server.counter:
                    self.server.sent_bytes += sent

    def _refuse(self, status: HTTPStatus, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self._end_headers()

    def _end_headers(self) -> None:
        """Say that we close, where we do: FFmpeg would send its next request into the closed connection."""
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their paths hold the secret."""


def byte_span(header: str | None, size: int) -> tuple[int, int] | None:
    """Return (first, past) of the bytes that a Range header asks for; ``None`` if the file has none of them.

    What is no single range of bytes is ignored, as RFC 9110 has it: the whole file is the answer.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return 0, size
    if not match[1]:
        count = min(int(match[2]), size)
        return (size - count, size) if count else None
    first = int(match[1])
    past = min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < first:
        return 0, size
    return (first, past) if first < size else None
