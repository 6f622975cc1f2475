"""What jobs have left goes when nobody can ask for it, or when it is too much; never while the job runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jetq.errors import BrokerDown
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.sweeper import Sweeper

DAY_S = 86400.0


class Ledger:
    """Knows some jobs, or is away."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.asked: list[str] = []
        self.is_away = False

    def __call__(self, job_id: str) -> bool:
        self.asked.append(job_id)
        if self.is_away:
            raise BrokerDown("away")
        return job_id in self.known


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def leave(tmp_path: Path) -> Callable[..., None]:
    def leave(job_id: str, age_s: float, size: int = 10) -> None:
        folder = tmp_path / job_id / "files"
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(b"x" * size)
        for path in (folder / "x", folder, folder.parent):
            os.utime(path, (2 * DAY_S - age_s, 2 * DAY_S - age_s))

    return leave


def sweeper(folder: Path, ledger: Ledger, **limits: int) -> Sweeper:
    limits = {"max_bytes": 1 << 30, **limits}
    return Sweeper(JobFolders(folder), ledger, ttl_s=DAY_S, now=lambda: 2 * DAY_S, **limits)


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_old_folders_go_once_the_ledger_has_forgotten_their_jobs(tmp_path, ledger, leave):
    leave("young", 60)
    leave("old", DAY_S + 60)
    leave("long", DAY_S + 60)
    ledger.known = {"long"}

    sweeper(tmp_path, ledger).sweep([])

    assert left(tmp_path) == {"young", "long"}
    assert "young" not in ledger.asked


def test_without_the_ledger_nothing_goes(tmp_path, ledger, leave):
    leave("old", DAY_S + 60)
    ledger.is_away = True

    with pytest.raises(BrokerDown):
        sweeper(tmp_path, ledger, max_bytes=0).sweep([])

    assert left(tmp_path) == {"old"}


def test_above_the_limit_the_oldest_go_but_not_those_that_run(tmp_path, ledger, leave):
    for number, name in enumerate(("e", "d", "c", "b", "a")):
        leave(name, 60 * (number + 1), size=100_000)

    sweeper(tmp_path, ledger, max_bytes=350_000).sweep(["a"])

    assert left(tmp_path) == {"a", "d", "e"}


def test_what_a_stream_or_a_gang_left_stays_while_a_part_of_it_runs(tmp_path, ledger, leave):
    for name in ("yard.gate", "gang", "old"):
        leave(name, 60, size=100_000)

    sweeper(tmp_path, ledger, max_bytes=0).sweep(["yard.gate.17", "gang.2.0"])

    assert left(tmp_path) == {"yard.gate", "gang"}


def test_a_limit_of_jobs_counts_the_smallest_as_well(tmp_path, ledger, leave):
    for number, name in enumerate("edcba"):
        leave(name, 60 * (number + 1))

    sweeper(tmp_path, ledger, max_jobs=2).sweep([])

    assert left(tmp_path) == {"d", "e"}


def test_a_folder_that_grew_while_its_job_ran_is_measured_again(tmp_path, ledger, leave):
    leave("grows", 60)
    sweeps = sweeper(tmp_path, ledger, max_bytes=100_000)
    sweeps.sweep(["grows"])
    (tmp_path / "grows" / "files" / "x").write_bytes(b"x" * 200_000)

    sweeps.sweep(["grows"])
    before = left(tmp_path)
    sweeps.sweep([])

    assert before == {"grows"}
    assert left(tmp_path) == set()


def test_links_are_not_followed(tmp_path, ledger, leave):
    leave("old", DAY_S + 60)
    (tmp_path.parent / "precious").mkdir(exist_ok=True)
    (tmp_path / "old" / "files" / "link").symlink_to(tmp_path.parent / "precious")
    os.utime(tmp_path / "old" / "files", (0, 0))
    os.utime(tmp_path / "old" / "files" / "link", (0, 0), follow_symlinks=False)

    sweeper(tmp_path, ledger).sweep([])

    assert left(tmp_path) == set()
    assert (tmp_path.parent / "precious").is_dir()
