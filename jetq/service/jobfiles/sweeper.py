"""Remove what jobs have left on a node, when nobody can ask for it any more or the disk has to bear too much."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from jetq.log import Log
from jetq.service.jobfiles.folders import JobFolders, job_of

#: More folders than this are too much, however small they are: a file system runs out of inodes, too.
MOST_JOBS = 20_000

_log = Log("sweeper")


@dataclass(frozen=True, slots=True)
class Heap:
    """The folder of one job, measured."""

    path: Path
    size_bytes: int  # on the disk
    touched_at: float  # when something in it changed last (Unix seconds)
    stamp_ns: int  # of the folder itself: another one means that a run has been added


class Sweeper:
    """Looks at the folders when asked to. A folder goes once it is old and the ledger has forgotten its job."""

    def __init__(
        self,
        folders: JobFolders,
        known: Callable[[str], bool],
        *,
        ttl_s: float,
        max_bytes: int,
        max_jobs: int = MOST_JOBS,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Remove nothing yet.

        Args:
            folders: of the node.
            known: tells whether the ledger has the job.
            ttl_s: how long the ledger keeps a job that has ended.
            max_bytes, max_jobs: of all folders together; above them the oldest go, but never that of a job that runs.
            now: Unix seconds, to compare with the times of files.
        """
        self._folders, self._known = folders, known
        self._ttl_s, self._max_bytes, self._max_jobs = ttl_s, max_bytes, max_jobs
        self._now = now
        self._measured: dict[Path, Heap] = {}  # a folder is measured again only where its job runs or has run again

    def sweep(self, running: Collection[str]) -> None:
        """Look at all folders and remove what has to go.

        Args:
            running: ids of the jobs that run here.

        Raises:
            BrokerDown: the ledger does not answer. Nothing has been removed; the next look asks again.
        """
        busy = {self._folders.folder(job_id) for job_id in running}
        busy |= {self._folders.folder(job_id.rsplit(".", 2)[0]) for job_id in running}  # of a member: its gang's
        busy |= {self._folders.folder(job_id.rsplit(".", 1)[0]) for job_id in running}  # of a seat: its stream's
        heaps = self._measure(busy)
        idle = [heap for heap in heaps if heap.path not in busy]
        old = [heap for heap in idle if self._is_forgotten(heap)]
        gone = {heap.path for heap in old}
        over = self._too_much([heap for heap in heaps if heap.path not in gone], busy)
        for heap in (*old, *over):
            shutil.rmtree(heap.path, ignore_errors=True)
            self._measured.pop(heap.path, None)
        if over:
            freed = sum(heap.size_bytes for heap in over)
            _log.warning("files.dropped", jobs=len(over), freed_bytes=freed, why="JETQ_FILES_MAX_BYTES or 20000 jobs")

    def _measure(self, busy: Collection[Path]) -> list[Heap]:
        """Return all folders, those first that were touched longest ago."""
        before, self._measured = self._measured, {}
        heaps = []
        for path, stamp_ns in self._found():
            heap = before.get(path)
            if heap is None or heap.stamp_ns != stamp_ns:
                heap = heap_of(path, stamp_ns)
            if path not in busy:
                self._measured[path] = heap
            heaps.append(heap)
        return sorted(heaps, key=lambda heap: heap.touched_at)

    def _found(self) -> list[tuple[Path, int]]:
        found = []
        try:
            with os.scandir(self._folders.root) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        found.append((Path(entry.path), entry.stat(follow_symlinks=False).st_mtime_ns))
        except OSError:  # one was removed meanwhile; the rest is for the next look
            return found
        return found

    def _too_much(self, heaps: list[Heap], busy: Collection[Path]) -> list[Heap]:
        count, size = len(heaps), sum(heap.size_bytes for heap in heaps)
        over = []
        for heap in (heap for heap in heaps if heap.path not in busy):
            if size <= self._max_bytes and count <= self._max_jobs:
                break
            over.append(heap)
            count, size = count - 1, size - heap.size_bytes
        return over

    def _is_forgotten(self, heap: Heap) -> bool:
        """Tell whether the ledger has no such job. A young folder's job is not asked for."""
        if self._now() - heap.touched_at < self._ttl_s:
            return False
        job_id = job_of(heap.path.name)
        return job_id is None or not self._known(job_id)


def heap_of(path: Path, stamp_ns: int) -> Heap:
    """Measure one folder, links not followed."""
    size, touched = 0, 0.0
    for place, folders, names in os.walk(path):
        for name in ("", *folders, *names):
            try:
                found = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            size += found.st_blocks * 512
            touched = max(touched, found.st_mtime)
    return Heap(path, size, touched, stamp_ns)
