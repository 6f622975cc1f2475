"""Unpack a workdir that came from elsewhere into a folder of its own. What is in it is not trusted.

The list is checked as a whole before anything is written. Names are relative, each part a plain name; folders come
before what is in them; nothing is named twice; links stay inside and are made last, so no file is written through one.
Sizes are declared, and not a byte more is taken out of the compressed data.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path

from jetq.errors import WorkdirRefused
from jetq.launch.workdir import MOST_BYTES, MOST_ENTRIES, Entry, stays_inside

#: The list itself (bytes): room for 10 000 long names.
MOST_LISTING = 4 * 1024**2
_CHUNK = 1 << 18


def unpack(
    blob: bytes, workdir: str, folder: Path, *, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES
) -> None:
    """Make ``folder`` with what is in a blob; its parent is there, itself is not.

    Args:
        blob: from ``workdir.pack``, or from anybody.
        workdir: the id it should have.
        folder: only its owner can look into it.
        most_bytes, most_entries: a blob that declares more is refused.

    Raises:
        WorkdirRefused: nothing is left of it then.
    """
    done = False
    try:
        stream = _Stream(blob)
        found = _listing(stream.line(MOST_LISTING), most_bytes=most_bytes, most_entries=most_entries)
        folder.mkdir(mode=0o700)
        try:
            _write(folder, found, stream)
            stream.check_end(workdir)
            done = True
        finally:
            if not done:
                shutil.rmtree(folder, ignore_errors=True)
    except _Hostile as exc:
        raise WorkdirRefused(workdir, str(exc)) from exc
    except zlib.error as exc:
        raise WorkdirRefused(workdir, "it is broken (no zlib data)") from exc
    except OSError as exc:
        raise WorkdirRefused(workdir, f"{exc.filename or folder} cannot be written: {exc.strerror}") from exc


class _Hostile(ValueError):
    """What is wrong with a blob."""


class _Stream:
    """The bytes in a blob, taken out as they are asked for."""

    def __init__(self, blob: bytes) -> None:
        self._press = zlib.decompressobj()
        self._packed = blob
        self._at = 0  # so far it was fed
        self._ready = b""
        self._digest = hashlib.sha256()

    def line(self, most: int) -> bytes:
        """Return all up to the first end of a line."""
        while b"\n" not in self._ready:
            if len(self._ready) > most:
                raise _Hostile(f"its list is longer than {most} bytes")
            if not self._more():
                raise _Hostile("it ends in the middle of its list")
        return self._take(self._ready.index(b"\n") + 1)

    def some(self, most: int) -> bytes:
        """Return some bytes, at least one, at most so many."""
        if not self._ready and not self._more():
            raise _Hostile("it ends in the middle of a file")
        return self._take(min(most, len(self._ready)))

    def check_end(self, workdir: str) -> None:
        """Refuse what goes on, and what is not the content that was asked for."""
        if (
            self._ready
            or self._more()
            or not self._press.eof
            or self._press.unused_data
            or self._at < len(self._packed)
        ):
            raise _Hostile("it has more or less in it than its list says")
        if self._digest.hexdigest() != workdir:
            raise _Hostile("its content is another than its id says")

    def _more(self) -> bool:
        """Take out some more. False: there is no more."""
        while not self._press.eof:
            packed = self._press.unconsumed_tail or self._packed[self._at : self._at + _CHUNK]
            if not self._press.unconsumed_tail:
                self._at += len(packed)
            fresh = self._press.decompress(packed, _CHUNK)
            self._ready += fresh
            if fresh or not packed:
                return bool(fresh)
        return False

    def _take(self, count: int) -> bytes:
        taken, self._ready = self._ready[:count], self._ready[count:]
        self._digest.update(taken)
        return taken


def _listing(line: bytes, *, most_bytes: int, most_entries: int) -> list[Entry]:
    """Return what a blob says it has, checked."""
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise _Hostile("its list is no JSON") from exc
    if not isinstance(plain, list):
        raise _Hostile("its list is no list")
    if len(plain) > most_entries:
        raise _Hostile(f"it has {len(plain)} files and folders, but {most_entries} is the most")
    found = [_entry(item) for item in plain]
    if sum(entry.size for entry in found) > most_bytes:
        raise _Hostile(f"its files have more than {most_bytes} bytes")
    _check_names(found)
    return found


def _entry(item: object) -> Entry:
    match item:
        case ["dir", str(path)]:
            return Entry("dir", path)
        case ["file", str(path), int(size), bool(executable)] if not isinstance(size, bool) and size >= 0:
            return Entry("file", path, size, executable)
        case ["link", str(path), str(target)]:
            return Entry("link", path, target=target)
    raise _Hostile(f"{item!r:.80} is no file, folder or link")


def _check_names(found: Sequence[Entry]) -> None:
    folders, known = {""}, set()
    for entry in found:
        if not _is_plain(entry.path):
            raise _Hostile(f"{entry.path!r:.80} is no name below the folder")
        if entry.path in known:
            raise _Hostile(f"{entry.path!r:.80} is in it twice")
        if entry.path.rpartition("/")[0] not in folders:
            raise _Hostile(f"{entry.path!r:.80} is in a folder that is not in it")
        if entry.kind == "link" and not (_is_encodable(entry.target) and stays_inside(entry.path, entry.target)):
            raise _Hostile(f"the link {entry.path!r:.80} leads out to {entry.target!r:.80}")
        known.add(entry.path)
        if entry.kind == "dir":
            folders.add(entry.path)


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return all(part not in ("", ".", "..") for part in parts) and "\0" not in path and _is_encodable(path)


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _write(folder: Path, found: Sequence[Entry], stream: _Stream) -> None:
    for entry in found:
        place = folder / entry.path
        if entry.kind == "dir":
            place.mkdir(mode=0o755)
        elif entry.kind == "file":
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(place, flags, 0o755 if entry.executable else 0o644), "wb") as file:
                left = entry.size
                while left:
                    chunk = stream.some(left)
                    file.write(chunk)
                    left -= len(chunk)
    for entry in found:
        if entry.kind == "link":
            (folder / entry.path).symlink_to(entry.target)
