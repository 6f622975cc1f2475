"""Models on their way to nodes: named by what is in them (SHA-256), kept there, and checked whenever they are used.

Loads nothing of the ``onnx`` extra: who only sends a model needs none of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from jetq.errors import ModelAway, UsageError

#: The analyzer whose option ``model`` is a file.
ANALYZER = "onnx"
#: What travels through the broker, which keeps it in memory (bytes).
MOST_BLOB_BYTES = 64 * 1024**2
#: What a node keeps of models (bytes); the one that was not used for longest goes first.
MOST_KEPT_BYTES = 1024**3
#: Who was just given a model has not opened it yet: so long it stays, whatever else comes (s).
_FRESH_S = 60.0
#: What is left of a download that was killed is removed after so long (s).
_STALE_S = 3600.0
#: A file of labels is a list of names, not a film (bytes).
_MOST_LABELS_BYTES = 32 * 1024
_CHUNK = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


def local_model(analyzer: str, options: Mapping[str, Any]) -> Path | None:
    """Return the file on this machine that an analyzer's model lies in; None: it has none.

    Raises:
        UsageError: there is no such file.
    """
    model = options.get("model")
    if analyzer != ANALYZER or not isinstance(model, str) or not model:
        return None
    path = Path(model).expanduser()
    if not path.is_file():
        raise UsageError(f"the model {model} is no file on this machine")
    return path


def with_labels(analyzer: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which the labels are names, where they are the name of a file that has one in each line.

    Raises:
        UsageError: the file cannot be read.
    """
    labels = options.get("labels")
    if analyzer != ANALYZER or not isinstance(labels, str):
        return dict(options)
    try:
        content = Path(labels).expanduser().read_bytes()
        names = content.decode().strip().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise UsageError(f"labels={labels}: a file with a name in each line cannot be read there ({why})") from exc
    if len(content) > _MOST_LABELS_BYTES:
        raise UsageError(f"labels={labels} has {len(content)} bytes; {_MOST_LABELS_BYTES} is the most")
    return dict(options) | {"labels": [name.strip() for name in names]}


def pack_model(path: Path) -> tuple[str, bytes]:
    """Return a model as a blob: its id, and its content.

    Raises:
        UsageError: it cannot be read, is too large for the broker, or has its weights in another file.
    """
    size = _size(path)
    if size > MOST_BLOB_BYTES:
        raise UsageError(
            f"the model {path} has {size >> 20} MiB, but {MOST_BLOB_BYTES >> 20} MiB is the most that travels through "
            "the broker: put it into the folder that all nodes mount (JETQ_SHARED)"
        )
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise UsageError(f"the model {path} cannot be read: {exc.strerror}") from exc
    for beside in (f"{path.name}.data", f"{path.name}_data", f"{path.stem}.data"):
        if (path.parent / beside).exists() and beside.encode() in content:
            raise UsageError(f"the model {path} has its weights in {beside}, and one file travels: export it as one")
    return hashlib.sha256(content).hexdigest(), content


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content; it is read only if it has changed since the last time.

    Raises:
        OSError: it cannot be read.
    """
    found = path.stat()
    return _digest(str(path), found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(path: str, _inode: int, _size: int, _modified_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def folder_beside(jobs_dir: str | Path | None) -> Path:
    """Return where a node keeps models: beside what its jobs leave; without such a folder, where temporary ones lie."""
    above = Path(jobs_dir).parent if jobs_dir else Path(tempfile.gettempdir(), f"jetq-{os.getuid()}")
    return above / "models"


class Shelf:
    """The models that a node keeps: one folder, for all its processes and threads."""

    def __init__(self, folder: Path, *, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    def get(self, digest: str, bring: Callable[[Path], None]) -> Path:
        """Return the file of a model, which is brought if it is not there. It stays for a minute at least.

        Args:
            digest: what its content must have.
            bring: writes it to a path; called by one of all who wait for it.

        Raises:
            ModelAway: the folder cannot be used, or what was brought is something else. What ``bring`` raises passes.
        """
        if not _DIGEST.fullmatch(digest):
            raise ModelAway(digest, "its name is no SHA-256; send it again")
        path = self._folder / f"{digest}.onnx"
        try:
            if self._is_good(path, digest):
                return path
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._alone(digest):
                if not self._is_good(path, digest):
                    self._take(path, digest, bring)
            self._clear(path)
        except OSError as exc:
            raise ModelAway(digest, f"{exc.filename or self._folder} cannot be used: {exc.strerror}") from exc
        return path

    def _take(self, path: Path, digest: str, bring: Callable[[Path], None]) -> None:
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=f".{digest[:12]}-")
        os.close(handle)
        arriving = Path(name)
        try:
            bring(arriving)
            if not arriving.is_file() or digest_of(arriving) != digest:
                raise ModelAway(digest, "what arrived is something else than what was sent; send it again")
            with arriving.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(arriving, path)
        finally:
            arriving.unlink(missing_ok=True)

    def _is_good(self, path: Path, digest: str) -> bool:
        """Tell whether it is there as it should be; if so, it is used now."""
        try:
            if digest_of(path) != digest:
                path.unlink()  # the disk, or somebody, has changed it
                return False
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @contextmanager
    def _alone(self, digest: str) -> Iterator[None]:
        """Let nobody else bring the same one meanwhile."""
        with (self._folder / f"{digest}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _clear(self, kept: Path) -> None:
        """Remove what was not used for longest, until the rest is not too much."""
        now_s, found = time.time(), []
        for path in self._folder.iterdir():
            try:
                row = path.stat()
            except FileNotFoundError:
                continue
            if path.suffix == ".onnx":
                found.append((row.st_atime, row.st_size, path))
            elif path.suffix != ".lock" and now_s - row.st_mtime > _STALE_S:
                path.unlink(missing_ok=True)
        total = sum(size for _, size, _ in found)
        for used_s, size, path in sorted(found):
            if total <= self._most_bytes:
                return
            if path != kept and now_s - used_s > _FRESH_S:
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
                total -= size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as exc:
        raise UsageError(f"the model {path} cannot be read: {exc.strerror}") from exc
