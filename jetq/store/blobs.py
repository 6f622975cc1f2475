"""Blobs: bytes named by their content that travel through the broker. Part of ``store.redis.RedisStore``."""

from __future__ import annotations

import json
from pathlib import Path

from jetq import ids
from jetq.errors import BrokerDown, WorkdirRefused
from jetq.store.link import Link, text

#: What one command carries (bytes): on a slow line, too, it arrives within the time that one answer may take.
PIECE = 1024 * 1024
#: A blob stays so long after its last use, and what has arrived of an upload so long after its last piece (s).
BLOB_TTL_S, UPLOAD_TTL_S = 24 * 3600, 60
_LOST = "the broker lost a part of what was sent to it; send it again"
#: What is before the id of a blob in the option ``model`` of a stream's analyzer.
BLOB = "blob:"


class Blobs(Link):
    """Takes blobs in and gives them out, piece by piece: nobody else waits long meanwhile."""

    def has_blob(self, blob_id: str) -> bool:
        """Tell whether a blob is there."""
        return bool(self._read("EXISTS", self._blob(blob_id)))

    def keep_blob(self, blob_id: str) -> bool:
        """Let a blob stay for another day. False: it is not there."""
        return bool(self._read("EXPIRE", self._blob(blob_id), BLOB_TTL_S))

    def keep_needed(self) -> None:
        """Let the workdirs of gangs and the models of streams that have not ended stay for another day."""
        lists = self._read_all(*(("ZRANGE", f"{self.prefix}{kind}", 0, -1) for kind in ("gangs", "streams")))
        jobs = [text(job) for ids_ in lists for job in ids_]
        specs = self._read_all(*(("HGET", f"{self.prefix}job:{job}", "spec") for job in jobs)) if jobs else []
        needed = {blob_id for spec in specs if spec and (blob_id := _needed_by(spec))}
        if needed:
            self._read_all(*(("EXPIRE", self._blob(blob_id), BLOB_TTL_S) for blob_id in sorted(needed)))

    def put_blob(self, blob_id: str, content: bytes) -> None:
        """Bring a blob. It has its name only once all of it is there; two who bring the same one are fine.

        Raises:
            BrokerDown: nothing is there by that name; what had arrived goes by itself.
        """
        name = f"{blob_id}:{ids.random64()}"
        upload = f"{self.prefix}upload:{name}"
        for offset in range(0, len(content), PIECE):  # at its place, not behind the last: a repeat adds nothing
            piece = ("SETRANGE", upload, offset, content[offset : offset + PIECE])
            before, *_ = self._send([("EXISTS", upload), piece, ("EXPIRE", upload, UPLOAD_TTL_S)], atomic=True)
            if offset and not before:
                raise BrokerDown(_LOST)
        if not self._run("name_blob", blob_id, name, len(content), BLOB_TTL_S):
            raise BrokerDown(_LOST)

    def get_blob(self, blob_id: str, path: str | Path) -> bool:
        """Write a blob into a file; whoever unpacks it checks that it is what its id says.

        Returns whether it was there as a whole; where not, no file is left.

        Raises:
            WorkdirRefused: the file cannot be written.
        """
        target, done = Path(path), False
        size = int(self._read("STRLEN", self._blob(blob_id))) if self.keep_blob(blob_id) else 0
        try:
            with target.open("wb") as file:
                for offset in range(0, size, PIECE):
                    file.write(self._read("GETRANGE", self._blob(blob_id), offset, offset + PIECE - 1))
                done = 0 < size == file.tell()
        except OSError as exc:
            raise WorkdirRefused(blob_id, f"{path} cannot be written: {exc.strerror}") from exc
        finally:
            if not done:
                target.unlink(missing_ok=True)
        return done

    def _blob(self, blob_id: str) -> str:
        return f"{self.prefix}blob:{blob_id}"


def _needed_by(spec: bytes | str) -> str | None:
    """Return the blob that a gang or a stream needs; None: it needs none, or its record makes no sense."""
    try:
        found = json.loads(spec)
        workdir, model = found.get("workdir"), (found.get("options") or {}).get("model")
    except (ValueError, AttributeError):
        return None
    if isinstance(model, str) and model.startswith(BLOB):
        return model.removeprefix(BLOB)
    return workdir if isinstance(workdir, str) else None
