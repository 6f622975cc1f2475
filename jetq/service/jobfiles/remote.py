"""The HTTP port of one node, from outside."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from jetq import process
from jetq.addresses import is_loopback
from jetq.errors import JetqError
from jetq.service.jobfiles.door import Door
from jetq.service.jobfiles.folders import FileRow
from jetq.service.jobfiles.log import RunLog

T = TypeVar("T")
#: Time for a node to answer (s).
TIMEOUT_S = 5.0
_CHUNK_BYTES = 1 << 20
#: What answers mean.
_NO_FILE = {404: "has no such file any more"}
_NO_VIEW = {
    404: "shows nothing of that stream: it does not run there, or had no frame yet",
    503: "has no picture of it now, or too many watch; ask again",
}


class PortFault(JetqError):
    """A node cannot be asked. The message is what follows the node's name."""


class NotThere(PortFault):
    """A node answers, and has not what was asked for."""


class NodePort:
    """What a node serves. Every call may raise ``PortFault``."""

    def __init__(self, door: str) -> None:
        """Ask nothing yet. ``door``: as the ledger keeps it.

        Raises:
            PortFault: it serves no files, or only to its own machine, and that is another one.
        """
        if not door:
            raise PortFault("serves no files; its own log says why")
        self._door = Door.parse(door)
        parts = urlsplit(self._door.url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        if is_loopback(self._host) and self._door.place != process.place():
            raise PortFault(
                "serves its files on its own machine only: start it with --http auto (JETQ_HTTP=auto), or ask there"
            )

    def runs(self, job_id: str) -> list[RunLog]:
        """Return the logs of a job."""
        return self._rows(RunLog.parse, _path(job_id, "log"))

    def files(self, job_id: str) -> list[FileRow]:
        """Return the files of a job."""
        return self._rows(FileRow.parse, _path(job_id, "files"))

    def log_from(self, job_id: str, run: str, offset: int) -> tuple[int, bytes]:
        """Return a run's output from an offset on, and where that really starts."""
        return self._read(f"{_path(job_id, 'log')}/{quote(run)}?offset={offset}")

    def preview(self, job_id: str) -> bytes:
        """Return what a stream sees now, boxes drawn in (JPEG)."""
        with self._get(f"{_path(job_id, 'preview')}?frame=1", _NO_VIEW) as answer:
            return self._whole(answer)

    def live(self, job_id: str) -> tuple[str, str]:
        """Return the address at which a stream shows itself (MJPEG), and the header that opens it: a secret."""
        return f"{self._door.url}{_path(job_id, 'preview')}", f"Authorization: Bearer {self._door.token}"

    def copy(self, job_id: str, name: str, target: Path) -> Path:
        """Write one file of a job to ``target``, in one step, and return that.

        Raises:
            OSError: it cannot be written.
        """
        fresh = target.with_name(f".{target.name}.part")
        try:
            with fresh.open("wb") as out, self._get(f"{_path(job_id, 'files')}/{quote(name)}") as answer:
                left = _number(answer, "Content-Length")
                while left:
                    chunk = self._chunk(answer, min(left, _CHUNK_BYTES))
                    out.write(chunk)
                    left -= len(chunk)
            return fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)

    def _rows(self, parse: Callable[[Any], T], path: str) -> list[T]:
        _start, body = self._read(path)
        try:
            return [parse(row) for row in json.loads(body)]
        except (ValueError, TypeError, KeyError) as exc:
            raise _nonsense() from exc

    def _read(self, path: str) -> tuple[int, bytes]:
        """Return the offset that a log starts at (0 for anything else), and the answer's body."""
        with self._get(path) as answer:
            return _number(answer, "X-Jetq-Offset"), self._whole(answer)

    def _whole(self, answer: http.client.HTTPResponse) -> bytes:
        left, parts = _number(answer, "Content-Length"), []
        while left:
            parts.append(self._chunk(answer, left))
            left -= len(parts[-1])
        return b"".join(parts)

    def _chunk(self, answer: http.client.HTTPResponse, most: int) -> bytes:
        try:
            chunk = answer.read(most)
        except (OSError, http.client.HTTPException) as exc:
            raise self._away(exc) from exc
        if not chunk:
            raise PortFault("broke off in the middle of an answer")
        return chunk

    @contextmanager
    def _get(self, path: str, known: Mapping[int, str] = _NO_FILE) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {self._door.token}"})
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as exc:
                raise self._away(exc) from exc
            if answer.status in known:
                raise (NotThere if answer.status == 404 else PortFault)(known[answer.status])
            if answer.status != 200:
                raise PortFault(f"refuses ({answer.status} {answer.reason}); it may just be starting anew")
            yield answer
        finally:
            connection.close()

    def _away(self, exc: Exception) -> PortFault:
        why = "timed out" if isinstance(exc, TimeoutError) else getattr(exc, "strerror", None) or str(exc)
        return PortFault(f"does not answer at {self._host} port {self._port} ({why})")


def _number(answer: http.client.HTTPResponse, header: str) -> int:
    """Return a header's number, 0 where it is not there."""
    try:
        return int(answer.getheader(header) or 0)
    except ValueError as exc:
        raise _nonsense() from exc


def _nonsense() -> PortFault:
    return PortFault("gives an answer that makes no sense; does it run another version of jetq?")


def _path(job_id: str, what: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}/{what}"
