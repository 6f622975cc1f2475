"""What a body finds around it in a pool child: variables that name its job, and an outlet for what it prints."""

from __future__ import annotations

import os
from collections.abc import Mapping

from jetq.engine.current import Run
from jetq.service.folders import JOBS_DIR, files_dir
from jetq.service.outlet import StandardOutlet, standard_outlet

_NAMES = ("JETQ_JOB_ID", "JETQ_TOKEN", "JETQ_ATTEMPT", "JETQ_FILES_DIR")


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

    def enter(self, run: Run) -> None:
        """A body begins."""
        os.environ.update(JETQ_JOB_ID=run.job_id, JETQ_TOKEN=run.token, JETQ_ATTEMPT=str(run.attempt))
        if self._jobs_dir is not None:
            os.environ["JETQ_FILES_DIR"] = files_dir(self._jobs_dir, run.job_id)
        if self._outlet is not None:
            self._outlet.begin(run.job_id, run.attempt)

    def leave(self) -> None:
        """It has ended: all it printed is in its log when this returns."""
        if self._outlet is not None:
            self._outlet.end()
        for name in _NAMES:
            os.environ.pop(name, None)
