"""What the jobs of a node leave, and its HTTP port.

folders   job folders, none in them yet
server    the HTTP port that gives what lies in them, for as long as the test runs
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.server import FileServer

#: No server asks it anything: its address says which of the machine's own is meant.
BROKER = "redis://127.0.0.1:6379/0"


@pytest.fixture
def folders(tmp_path: Path) -> JobFolders:
    made = JobFolders(tmp_path / "jobs")
    made.root.mkdir()
    return made


@pytest.fixture
def server(folders: JobFolders) -> Iterator[FileServer]:
    made = FileServer(folders, None, BROKER)
    made.start()
    yield made
    made.stop()
