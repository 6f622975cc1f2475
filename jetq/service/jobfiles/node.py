"""All that a node does about its jobs' files: collects what they print, serves what they leave, and tidies up."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from jetq.config import Settings
from jetq.errors import JetqError
from jetq.log import Log
from jetq.service.jobfiles.collector import Collector
from jetq.service.jobfiles.folders import JOBS_DIR, JobFolders, take
from jetq.service.jobfiles.outlet import OUTPUT
from jetq.service.jobfiles.private import sweep_private
from jetq.service.jobfiles.server import FileServer
from jetq.service.jobfiles.sweeper import Sweeper

_log = Log("files")


class JobFiles:
    """Lives as long as one run of the agent. A node whose folder cannot be used goes on without."""

    def __init__(self, settings: Settings, known: Callable[[str], bool]) -> None:
        """Touch nothing yet. ``settings``: with node and broker; ``known``: whether the ledger has a job."""
        self._settings = settings
        self._known = known
        self._folders: JobFolders | None = None
        self._lock_fd = -1
        self._collector: Collector | None = None
        self._server: FileServer | None = None
        self._sweeper: Sweeper | None = None

    def start(self) -> str:
        """Begin; call it before the first lane starts. Returns the node's door as the ledger keeps it, "": none.

        Raises:
            UsageError: the address to serve on cannot be used.
        """
        asked = self._settings
        try:
            self._folders, self._lock_fd = take(asked.home_dir.expanduser().absolute(), asked.node or "")
        except JetqError as exc:
            _log.warning("files.off", why=exc)
            return ""
        self._server = FileServer(self._folders, asked.http, asked.broker_url or "")
        self._collector = Collector(self._folders, log_max_bytes=asked.log_max_bytes)
        self._sweeper = Sweeper(self._folders, self._known, ttl_s=asked.result_ttl_s, max_bytes=asked.files_max_bytes)
        self.clear()
        self._server.start()
        self._collector.start()
        _log.info("files.served", url=self._server.door.url, dir=self._folders.root)
        return self._server.door.as_text()

    def sweep(self, running: Collection[str]) -> None:
        """Remove what is too old or too much. ``running``: ids of the jobs that run here."""
        self.clear()
        if self._sweeper is not None:
            self._sweeper.sweep(running)

    def clear(self) -> None:
        """Remove what members of gangs have left that were killed."""
        if self._folders is not None and (count := sweep_private(self._folders.root)):
            _log.warning("files.cleared", folders=count)

    def stop(self) -> None:
        """End; what lanes have printed so far is still taken."""
        for part in (self._collector, self._server):
            if part is not None:
                part.stop()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def environ(self) -> dict[str, str]:
        """Return what lanes need to know of it."""
        if self._folders is None or self._collector is None:
            return {}
        return {JOBS_DIR: str(self._folders.root), OUTPUT: self._collector.address}
