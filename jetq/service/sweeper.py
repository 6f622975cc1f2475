"""Remove what jobs have left on a node, when nobody can ask for it any more or the disk has to bear too much."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from jetq.log import Log
from jetq.service.folders import JobFolders, job_of

_log = Log("sweeper")


@dataclass(frozen=True, slots=True)
class Heap:
    """The folder of one job."""

    path: Path
    size_bytes: int  # on the disk
    touched_at: float  # when something in it changed last (Unix seconds)


class Sweeper:
    """Looks at the folders when asked to. A folder goes once it is old and the ledger has forgotten its job."""

    def __init__(
        self,
        folders: JobFolders,
        known: Callable[[str], bool],
        *,
        ttl_s: float,
        max_bytes: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Remove nothing yet.

        Args:
            folders: of the node.
            known: tells whether the ledger has the job.
            ttl_s: how long the ledger keeps a job that has ended.
            max_bytes: of all folders together; above it the oldest go, but never that of a job that runs.
            now: Unix seconds, to compare with the times of files.
        """
        self._folders, self._known = folders, known
        self._ttl_s, self._max_bytes = ttl_s, max_bytes
        self._now = now

    def sweep(self, running: Collection[str]) -> None:
        """Look at all folders and remove what has to go.

        Args:
            running: ids of the jobs that run here.

        Raises:
            BrokerDown: the ledger does not answer. Nothing has been removed; the next look asks again.
        """
        busy = {self._folders.folder(job_id) for job_id in running}
        heaps = sorted((heap_of(path) for path in self._paths()), key=lambda heap: heap.touched_at)
        idle = [heap for heap in heaps if heap.path not in busy]
        old = [heap for heap in idle if self._is_forgotten(heap)]
        total = sum(heap.size_bytes for heap in heaps) - sum(heap.size_bytes for heap in old)
        over = []
        for heap in (heap for heap in idle if heap not in old):
            if total <= self._max_bytes:
                break
            over.append(heap)
            total -= heap.size_bytes
        for heap in (*old, *over):
            shutil.rmtree(heap.path, ignore_errors=True)
        if old:
            _log.debug("files.forgotten", jobs=len(old))
        if over:
            freed = sum(heap.size_bytes for heap in over)
            _log.warning("files.dropped", jobs=len(over), freed_bytes=freed, limit="JETQ_FILES_MAX_BYTES")

    def _paths(self) -> list[Path]:
        try:
            return [Path(entry) for entry in os.scandir(self._folders.root) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _is_forgotten(self, heap: Heap) -> bool:
        """Tell whether the ledger has no such job. A young folder's job is not asked for."""
        if self._now() - heap.touched_at < self._ttl_s:
            return False
        job_id = job_of(heap.path.name)
        return job_id is None or not self._known(job_id)


def heap_of(path: Path) -> Heap:
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
    return Heap(path, size, touched)
