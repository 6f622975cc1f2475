"""Serve the input files by HTTP ranges, so that a node needs no copy of them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from jetq.errors import UsageError
from jetq.log import Log
from jetq.serving import QuietServer, RangeHandler, url_of

_log = Log("fileserver")
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
        try:
            self._server = _Server(host, self._files)
        except OSError as exc:
            raise UsageError(f"{host!r} is no address of this machine ({exc.strerror}); see `ip addr`") from exc
        self._base = url_of(self._server, host)
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


class _Server(QuietServer):
    def __init__(self, host: str, files: dict[str, Path]) -> None:
        self.files = files
        self.sent_bytes = 0
        self.counter = threading.Lock()
        super().__init__(host, 0, _Request)


class _Request(RangeHandler):
    timeout = IDLE_S
    server: _Server

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path = self.server.files.get(self.path)
        if path is None:
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            file = path.open("rb")
        except OSError as exc:
            _log.warning("fileserver.unreadable", file=path.name, why=exc.strerror)
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        with file:
            sent = self.give_file(file, with_body=with_body)
        with self.server.counter:
            self.server.sent_bytes += sent
