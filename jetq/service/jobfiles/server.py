"""The node's HTTP port: what jobs have left here, read-only, for those who can read the ledger.

    GET /jobs/ID/files                 the files of a job (JSON; see FileRow)
    GET /jobs/ID/files/NAME            one file; a Range header gives a part of it
    GET /jobs/ID/log                   its runs here (JSON; see RunLog)
    GET /jobs/ID/log/RUN?offset=N      the output of one run from byte N on; the header X-Jetq-Offset says where it
                                       really starts, where older output has been dropped
    GET /jobs/ID/preview               what a stream that runs here sees: JPEGs, one after the other (MJPEG), each with
                                       its boxes; ?frame=1 gives one. 404: it does not run here, 503: no picture now

Each request carries ``Authorization: Bearer TOKEN``; the token is drawn anew by each run of the agent and lies in the
node's row of the ledger.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import secrets
import threading
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from jetq import process
from jetq.addresses import address_towards, is_loopback
from jetq.broker import Listen
from jetq.errors import UsageError
from jetq.log import Log
from jetq.service.jobfiles.door import Door
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import open_from, run_logs
from jetq.service.jobfiles.previews import Previews
from jetq.serving import QuietServer, RangeHandler, url_of

LOOPBACK = "127.0.0.1"
#: Stands for the address of this machine that faces the broker.
AUTO = "auto"
#: A connection may stand still for so long (s).
IDLE_S = 30.0
#: More requests at once are turned away.
MOST_REQUESTS = 32

_log = Log("files")


def bind_address(asked: str | None, broker_url: str) -> tuple[str, int]:
    """Return the address and port (0: any) to listen on.

    Args:
        asked: ``ADDR``, ``ADDR:PORT``, ``auto`` or ``auto:PORT``; None: loopback.
        broker_url: ``auto`` is this machine's address on the way there.

    Raises:
        UsageError: no such form, or no address of this machine.
    """
    if asked is None:
        return LOOPBACK, 0
    name, _, port = asked.partition(":")
    if name == AUTO and (not port or port.isdecimal()):
        return address_towards(broker_url), int(port or 0)
    listen = Listen.parse(asked, flag="--http")
    return listen.address, listen.port or 0


def seen_address(address: str, broker_url: str) -> str:
    """Return the address that others write for one that was listened on: of "all addresses", the one they reach."""
    if not ipaddress.ip_address(address).is_unspecified:
        return address
    towards = address_towards(broker_url)
    return Listen(address).seen.strip("[]") if is_loopback(towards) else towards


def own_address(asked: str | None, broker_url: str) -> str:
    """Return the address at which other nodes reach this machine, "" where its way to the broker is not known.

    It is where the node serves its files, if others can reach that, else the address that faces the broker.

    Raises:
        UsageError: ``asked`` is no address of this machine (see ``bind_address``).
    """
    try:
        served = seen_address(bind_address(asked, broker_url)[0], broker_url)
        return address_towards(broker_url) if is_loopback(served) else served
    except OSError:  # the broker's name is not known just now
        return ""


class FileServer:
    """Serves the folders of one node for one run of its agent."""

    def __init__(self, folders: JobFolders, asked: str | None, broker_url: str) -> None:
        """Listen at once (``asked``: see ``bind_address``); nothing is answered before ``start``.

        Raises:
            UsageError: the address is none of this machine's, or the port is in use.
        """
        address, port = bind_address(asked, broker_url)
        token = secrets.token_urlsafe(24)
        try:
            self._server = _Server(address, port, folders, token)
        except OSError as exc:
            hint = "leave the port out to take any that is free" if port else "see `ip addr`"
            raise UsageError(f"--http {asked}: {address} port {port} cannot be used ({exc.strerror}); {hint}") from exc
        seen = seen_address(address, broker_url)
        self.door = Door(url_of(self._server, seen), token, process.place())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="files", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.previews.stop()
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(QuietServer):
    def __init__(self, address: str, port: int, folders: JobFolders, token: str) -> None:
        self.folders = folders
        self.previews = Previews(folders.root)
        self.token = token.encode()
        self._room = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(address, port, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Turn away what is too much at once."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()


class _Request(RangeHandler):
    timeout = IDLE_S
    server: _Server

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, b"Bearer " + self.server.token):
            self.refuse(HTTPStatus.UNAUTHORIZED)
            return
        asked = urlsplit(self.path)
        parts = [unquote(part) for part in asked.path.split("/")]
        if parts[:2] != ["", "jobs"] or len(parts) < 4 or not parts[2]:
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        job_id, what, *rest = parts[2:]
        if what == "files" and not rest:
            self._give_json([row.as_json() for row in self.server.folders.list_files(job_id)])
        elif what == "files":
            self._give_file(job_id, "/".join(rest))
        elif what == "preview" and not rest:
            once = "frame" in parse_qs(asked.query)
            self.server.previews.give(self, job_id, once=once)
        elif what == "log" and not rest:
            self._give_json([run.as_json() for run in run_logs(self.server.folders.folder(job_id))])
        elif what == "log" and len(rest) == 1:
            offset = (parse_qs(asked.query).get("offset") or ["0"])[0]
            self._give_log(job_id, rest[0], int(offset) if offset.isdecimal() else 0)
        else:
            self.refuse(HTTPStatus.NOT_FOUND)

    def _give_json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.begin(HTTPStatus.OK, len(body), kind="application/json")
        self.wfile.write(body)

    def _give_file(self, job_id: str, name: str) -> None:
        fd = self.server.folders.open_file(job_id, name)
        if fd is None:
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        with open(fd, "rb") as file:
            self.give_file(file)

    def _give_log(self, job_id: str, run: str, offset: int) -> None:
        start, parts = open_from(self.server.folders.folder(job_id), run, offset)
        try:
            size = sum(past - first for _fd, first, past in parts)
            self.begin(HTTPStatus.OK, size, ("X-Jetq-Offset", str(start)))
            for fd, first, past in parts:
                with open(fd, "rb", closefd=False) as file:
                    self.connection.sendfile(file, first, past - first)
        finally:
            for fd, _first, _past in parts:
                os.close(fd)
