"""What a body finds around it: its job's variables and folder, and nothing of the job before."""

from __future__ import annotations

import os
import threading

import pytest

import jetq
from jetq.engine import current
from jetq.engine.surroundings import Surroundings
from jetq.errors import JetqError
from jetq.service.jobfiles.folders import JOBS_DIR


def run_of(job_id: str) -> current.Run:
    return current.Run(job_id, "0-abc", "1.2", 1, follows=False, outcome="", folds=True, most_bytes=1 << 20)


def test_a_body_finds_its_job_and_the_next_one_nothing_of_it(tmp_path):
    around = Surroundings(None, str(tmp_path))

    around.enter(run_of("j"))
    inside = {name: value for name, value in os.environ.items() if name.startswith("JETQ_")}
    around.leave()

    assert inside == {
        "JETQ_JOB_ID": "j",
        "JETQ_TOKEN": "0-abc",
        "JETQ_ATTEMPT": "1",
        "JETQ_FILES_DIR": f"{tmp_path}/j/files",
    }
    assert not any(name.startswith("JETQ_") for name in os.environ)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_made_when_it_is_asked_for(tmp_path):
    around = Surroundings(None, str(tmp_path))
    around.enter(run_of("j"))

    folder = jetq.files_dir()

    around.leave()
    assert folder == tmp_path / "j" / "files"
    assert folder.is_dir()


def test_each_thread_has_the_folder_of_its_own_job(tmp_path, monkeypatch):
    monkeypatch.setenv(JOBS_DIR, str(tmp_path))
    found = {}

    def body(job_id: str) -> None:
        current.enter(run_of(job_id))
        found[job_id] = jetq.files_dir()

    threads = [threading.Thread(target=body, args=(job_id,)) for job_id in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {"one": tmp_path / "one" / "files", "two": tmp_path / "two" / "files"}


def test_outside_of_a_job_there_is_no_folder():
    with pytest.raises(JetqError, match="body of a task"):
        jetq.files_dir()
