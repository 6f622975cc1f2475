"""What jobs leave on a node: a folder for each, made by whatever is written first."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from jetq.errors import JetqError

#: Names the folder of all jobs' folders to a node's processes.
JOBS_DIR = "JETQ_JOBS_DIR"
#: Longest name of a folder that still is the job's id (bytes); file systems take 255.
_LONGEST = 200
#: So many files of a job are listed.
LISTED = 10_000


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file that a job has left."""

    name: str  # relative to the job's folder, with slashes
    size_bytes: int
    modified_at: float  # Unix seconds, the node's clock

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {name: getattr(self, name) for name in ("name", "size_bytes", "modified_at")}

    @classmethod
    def parse(cls, row: dict[str, Any]) -> FileRow:
        """Return what ``as_json`` gave, maybe in another version of jetq."""
        return cls(str(row["name"]), int(row["size_bytes"]), float(row["modified_at"]))


class JobFolders:
    """The folders of one node: ``ROOT/<job id>`` holds a job's logs, and ``files`` there what it leaves."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, job_id: str) -> Path:
        """Return the folder of a job, there or not; its logs lie in it."""
        return self.root / folder_name(job_id)

    def files(self, job_id: str) -> Path:
        """Return the folder a body may write to: what it finds in ``JETQ_FILES_DIR``."""
        return Path(files_dir_of(str(self.root), job_id))

    def list_files(self, job_id: str) -> list[FileRow]:
        """Return the regular files a job has left, by name; links are left out, and what is past ``LISTED``."""
        top = self.files(job_id)
        rows = []
        for place, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name)
                try:
                    found = path.lstat()
                except OSError:
                    continue
                if _is_regular(found.st_mode):
                    rows.append(FileRow(path.relative_to(top).as_posix(), found.st_size, found.st_mtime))
            if len(rows) >= LISTED:
                break
        return sorted(rows[:LISTED], key=lambda row: row.name)

    def open_file(self, job_id: str, name: str) -> int | None:
        """Open one file of a job for reading; None: there is none of that name inside the folder.

        Each part is opened below the one before and none may be a link, so no name leads out, whatever the job does.
        """
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            return None
        at = None
        try:
            at = os.open(self.files(job_id), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            for part in parts[:-1]:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = below
            fd = os.open(parts[-1], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        except OSError:
            return None
        finally:
            if at is not None:
                os.close(at)
        if _is_regular(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return None


def files_dir_of(root: str, job_id: str) -> str:
    """Return the folder that a body may write to, there or not; ``root``: of all jobs' folders."""
    return f"{root}/{folder_name(job_id)}/files"


def folder_name(job_id: str) -> str:
    """Return a job's id as the name of a folder: Celery takes any text for an id."""
    name = quote(job_id, safe="")
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if len(name) > _LONGEST:
        return "%" + hashlib.blake2b(job_id.encode(), digest_size=16).hexdigest()
    return name


def job_of(name: str) -> str | None:
    """Return the job id that a folder is named after; None: it is too long to be told from the name."""
    job_id = unquote(name)
    return job_id if folder_name(job_id) == name else None


def take(home: Path, node: str) -> tuple[JobFolders, int]:
    """Take the folder of a node below ``home`` for as long as the returned fd is open.

    Two nodes of one name (of two clusters) on one machine get folders of their own: the kernel holds the lock.

    Raises:
        JetqError: the folder cannot be made.
    """
    for count in itertools.count(1):
        place = home / "nodes" / (node if count == 1 else f"{node}~{count}")
        try:
            (place / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise JetqError(f"cannot use the folder {place}: {exc.strerror}; give another one with --dir") from exc
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        return JobFolders(place / "jobs"), lock
    raise AssertionError


def _is_regular(mode: int) -> bool:
    return (mode & 0o170000) == 0o100000
