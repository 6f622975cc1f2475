"""What a body finds around it in a pool child: variables that name its job, and an outlet for what it prints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jetq.engine.current import Run, run
from jetq.errors import JetqError
from jetq.service.jobfiles.folders import JOBS_DIR, files_dir_of
from jetq.service.jobfiles.outlet import StandardOutlet, standard_outlet

_NAMES = ("JETQ_JOB_ID", "JETQ_TOKEN", "JETQ_ATTEMPT", "JETQ_FILES_DIR")


def files_dir() -> Path:
    """Return the folder for the files of the job that this thread or process runs, made now if it was not there.

    They stay on this node; `jetq job files` lists and fetches them. A job that runs again on this node finds them.

    Raises:
        JetqError: no job runs here, or its node keeps no files.
    """
    here, jobs_dir = run(), os.environ.get(JOBS_DIR)
    found = files_dir_of(jobs_dir, here.job_id) if here and jobs_dir else os.environ.get("JETQ_FILES_DIR")
    if not found:
        raise JetqError("jetq.files_dir() is for the body of a task, on a node that keeps files (its log says if not)")
    folder = Path(found)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Surroundings:
    """Those of one process that runs one job at a time. A silent job costs a few microseconds."""

    def __init__(self, outlet: StandardOutlet | None, jobs_dir: str | None) -> None:
        """``outlet``: None leaves stdout and stderr alone; ``jobs_dir``: None names no folder to the bodies."""
        self._outlet = outlet
        self._jobs_dir = jobs_dir

    @classmethod
    def of_child(cls, environ: Mapping[str, str] = os.environ) -> Surroundings:
        """Return those of this pool child; its stdout and stderr go to the node's agent from now on."""
        return cls(standard_outlet(environ), environ.get(JOBS_DIR))

    def enter(self, begun: Run) -> None:
        """A body begins."""
        os.environ.update(JETQ_JOB_ID=begun.job_id, JETQ_TOKEN=begun.token, JETQ_ATTEMPT=str(begun.attempt))
        if self._jobs_dir is not None:
            os.environ["JETQ_FILES_DIR"] = files_dir_of(self._jobs_dir, begun.job_id)
        if self._outlet is not None:
            self._outlet.begin(begun.job_id, begun.attempt)

    def leave(self) -> None:
        """It has ended: all it printed is in its log when this returns."""
        if self._outlet is not None:
            self._outlet.end()
        for name in _NAMES:
            os.environ.pop(name, None)
