"""Files over HTTP, whole or by ranges: what each of our servers shares."""

from __future__ import annotations

import os
import re
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class QuietServer(ThreadingHTTPServer):
    """A server on one address that asks no name service, and takes a reader that hangs up as one that has enough."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen on ``host``, an IP address of this machine; ``port`` 0: any that is free.

        Raises:
            OSError: it is not, or the port is taken.
        """
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without asking who we are, as the stock one does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that hangs up in the middle is no error of ours."""


class RangeHandler(BaseHTTPRequestHandler):
    """Answers with what the subclass opens."""

    protocol_version = "HTTP/1.1"
    server_version = "jetq"
    sys_version = ""

    def give_file(self, file: IO[bytes], *, with_body: bool = True) -> int:
        """Answer with a file, or the part of it that is asked for. Returns how many bytes of it were sent."""
        size = os.fstat(file.fileno()).st_size
        asked = self.headers.get("Range")
        span = byte_span(asked, size)
        if span is None:
            self.refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, ("Content-Range", f"bytes */{size}"))
            return 0
        first, past = span
        headers = [("Accept-Ranges", "bytes")]
        partial = asked is not None and _RANGE.fullmatch(asked.strip()) is not None
        if partial:
            headers.append(("Content-Range", f"bytes {first}-{past - 1}/{size}"))
        self.begin(HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK, past - first, *headers)
        sent = self.connection.sendfile(file, first, past - first) if with_body and past > first else 0
        if with_body and sent < past - first:  # it was made shorter meanwhile: the reader shall not wait for the rest
            self.close_connection = True
        return sent

    def begin(
        self, status: HTTPStatus, size: int, *headers: tuple[str, str], kind: str = "application/octet-stream"
    ) -> None:
        """Write the head of an answer of ``size`` bytes."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "no-store")
        for name, value in headers:
            self.send_header(name, value)
        if self.close_connection:  # FFmpeg would send its next request into the closed connection
            self.send_header("Connection", "close")
        self.end_headers()

    def refuse(self, status: HTTPStatus, *headers: tuple[str, str]) -> None:
        """Answer with a status alone."""
        self.begin(status, 0, *headers)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their paths may hold a secret, and who follows a log asks several times a second."""


def url_of(server: QuietServer, host: str) -> str:
    """Return the server's URL for those who reach it as ``host``."""
    return f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}"


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
