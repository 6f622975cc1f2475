"""Pack a folder so that it can travel to the members of a gang: one blob, named by its content.

The blob is zlib data. Inside, the first line is a list (JSON) of what is in the folder, sorted by path::

    ["dir", PATH]   ["file", PATH, SIZE, EXECUTABLE]   ["link", PATH, TARGET]

and then the files' bytes follow, one after another. Its id is the SHA-256 of all that: owners, times, and the order in
which a disk lists its files are not in it. It is no tar: there is nothing to declare but these three, sizes are known
before a byte is written, and Python's reader has no safe way to take a stranger's tar before 3.12.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jetq.errors import UsageError
from jetq.launch.ignore import Rules

#: All files of a workdir together (bytes): it is code, and travels through the broker.
MOST_BYTES = 64 * 1024**2
#: Files, folders and links of a workdir.
MOST_ENTRIES = 10_000
#: So many of the largest files are named.
_NAMED = 5
_CHUNK = 1 << 18
#: Code shrinks well at any level, and boards are slow.
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a workdir."""

    kind: Literal["dir", "file", "link"]
    path: str  # below the folder, with slashes
    size: int = 0  # of a file (bytes)
    executable: bool = False
    target: str = ""  # of a link

    def as_list(self) -> list[str | int | bool]:
        """Return it as the blob's list has it."""
        if self.kind == "file":
            return [self.kind, self.path, self.size, self.executable]
        return [self.kind, self.path, *([self.target] if self.kind == "link" else [])]


@dataclass(frozen=True, slots=True)
class Packed:
    """A workdir, ready to travel."""

    id: str
    blob: bytes
    files: int
    size_bytes: int  # of all files, as they lie on the disk


def pack(folder: Path, *, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> Packed:
    """Pack a folder, without what its ignore files leave out.

    Raises:
        UsageError: it is no folder, cannot be read, is too large (the largest files are named), or has something that
            cannot travel.
    """
    if not folder.is_dir():
        raise UsageError(f"the workdir {folder} is no folder; give one with --workdir")
    try:
        found = sorted(entries(folder), key=lambda entry: entry.path)
        _check_size(folder, found, most_bytes=most_bytes, most_entries=most_entries)
        return _packed(folder, found)
    except OSError as exc:
        raise UsageError(f"{exc.filename} cannot be packed: {exc.strerror}; leave it out in .jetqignore") from exc


def entries(folder: Path) -> Iterator[Entry]:
    """Yield what is in a folder and not left out, in any order.

    Raises:
        UsageError: a link leads out, or something is no file, folder or link.
        OSError: something cannot be read.
    """
    todo = [("", Rules())]
    while todo:
        base, above = todo.pop()
        here = folder / base
        rules = above.inside(here, base)
        with os.scandir(here) as listing:
            for item in listing:
                path = base + item.name
                if rules.leave_out(path, is_folder=item.is_dir(follow_symlinks=False)):
                    continue
                entry = _entry(item, path)
                if entry.kind == "dir":
                    todo.append((f"{path}/", rules))
                yield entry


def stays_inside(path: str, target: str) -> bool:
    """Tell whether a link at ``path`` leads to a place in the folder, whatever other such links are on its way.

    A target is ``..`` so many times, and then names only: a ``..`` behind a name may be anywhere, if that is a link.
    """
    parts = target.split("/")
    ups = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    rest = parts[ups:]
    if target == ".":
        return True
    return ups <= path.count("/") and all(part not in ("", ".", "..") for part in rest) and "\0" not in target


def _entry(item: os.DirEntry[str], path: str) -> Entry:
    if item.is_symlink():
        target = _tidy(os.readlink(item.path))
        if not stays_inside(path, target):
            raise UsageError(
                f"the link {path} leads to {target}, which a node may not have; "
                "make it relative and within the workdir, or leave it out in .jetqignore"
            )
        return Entry("link", path, target=target)
    status = item.stat(follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return Entry("dir", path)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is a device, pipe or socket and cannot travel; leave it out in .jetqignore")
    return Entry("file", path, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def _tidy(target: str) -> str:
    """Return a link's target without what says nothing (``./x``, ``x//y``, ``x/``)."""
    if target.startswith("/"):
        return target
    return "/".join(part for part in target.split("/") if part not in ("", ".")) or "."


def _check_size(folder: Path, found: Sequence[Entry], *, most_bytes: int, most_entries: int) -> None:
    way_out = "leave them out in .jetqignore, or put data where all nodes see it (JETQ_SHARED)"
    if len(found) > most_entries:
        top, count = Counter(entry.path.partition("/")[0] for entry in found).most_common(1)[0]
        raise UsageError(
            f"the workdir {folder} has {len(found)} files and folders ({count} of them in {top}), "
            f"but {most_entries} is the most; {way_out}"
        )
    total = sum(entry.size for entry in found)
    if total > most_bytes:
        largest = sorted(found, key=lambda entry: (-entry.size, entry.path))[:_NAMED]
        named = ", ".join(f"{entry.path} ({_mib(entry.size)})" for entry in largest if entry.size)
        raise UsageError(
            f"the workdir {folder} has {_mib(total)}, but {_mib(most_bytes)} is the most; the largest files: {named}; "
            f"{way_out}"
        )


def _packed(folder: Path, found: Sequence[Entry]) -> Packed:
    listing = json.dumps([entry.as_list() for entry in found], separators=(",", ":")).encode() + b"\n"
    digest, press = hashlib.sha256(listing), zlib.compressobj(_LEVEL)
    parts = [press.compress(listing)]
    files = [entry for entry in found if entry.kind == "file"]
    for entry in files:
        for chunk in _content(folder / entry.path, entry):
            digest.update(chunk)
            parts.append(press.compress(chunk))
    parts.append(press.flush())
    return Packed(digest.hexdigest(), b"".join(parts), len(files), sum(entry.size for entry in files))


def _content(path: Path, entry: Entry) -> Iterator[bytes]:
    """Yield a file's bytes, as many as were counted."""
    left = entry.size
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        while chunk := file.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
    if left:
        raise UsageError(f"{entry.path} changed while it was packed; try again, or leave it out in .jetqignore")


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 1024:.1f} KiB"
