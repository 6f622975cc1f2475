"""Gangs by the system's own Open MPI 4 (as JetPack has it by apt), beside a venv that brings Open MPI 5."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.boards import Boards
from tests.fault.boards import boards as build

pytestmark = pytest.mark.xdist_group("gang-hosts")
SYSTEM = "/usr/bin/mpirun"
#: The system's programs come before those of the venv.
PATH = f"/usr/bin:/bin:/usr/sbin:/sbin:{Path(sys.executable).parent}"


@pytest.fixture(scope="module")
def boards(tmp_path_factory) -> Iterator[Boards]:
    """Give three boards: a and b run the system's Open MPI, c that of its venv."""
    if not os.path.exists(SYSTEM):
        pytest.fail("the system's Open MPI is missing: apt install openmpi-bin")
    said = subprocess.run([SYSTEM, "--version"], capture_output=True, text=True, check=True).stdout
    assert "(Open MPI) 4." in said, said
    with build(tmp_path_factory.mktemp("boards"), ("nano1", "nano2", "orin")) as made:
        for number, name in enumerate("ab", start=1):
            made.start(name, number, "--label", "mpi=4", PATH=PATH)
        made.start("c", 3, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        made.wait_up("a", "b", "c")
        yield made


def test_ranks_run_by_open_mpi_4_on_boards_and_nothing_is_left(boards):
    job = boards.gang(
        "sh",
        "-c",
        'echo "$(hostname) $RANK/$WORLD_SIZE $(mpirun --version | head -1)"',
        nodes=2,
        labels=["mpi=4"],
        ranks=2,
    )

    assert job.wait(60).state == "SUCCEEDED", boards.lines(job)
    said = sorted(line.partition(": ")[2] for line in boards.lines(job) if not line.startswith("None: "))
    version = "mpirun (Open MPI) 4."
    assert [line.partition(version)[0] for line in said] == ["nano1 0/4 ", "nano1 1/4 ", "nano2 2/4 ", "nano2 3/4 "]
    boards.wait_nothing_left(job)


def test_a_rank_that_fails_under_open_mpi_4_is_named_and_nothing_is_left(boards):
    failing = 'setsid sleep 600 & [ "$RANK" = 1 ] && { sleep 1; echo no data; exit 3; }; sleep 600'
    job = boards.gang("sh", "-c", failing, nodes=2, labels=["mpi=4"])
    row = job.wait(40)

    assert (row.state, row.exit_code) == ("FAILED", 3)
    assert f"rank 1 on {row.nodes[1]} exited with code 3" in row.error
    boards.wait_nothing_left(job)


def test_nodes_of_two_major_versions_are_not_mixed_and_are_named(boards):
    job = boards.gang("true")
    row = boards.until(job, lambda row: "Open MPI" in str(row.history), 20, "a node refuses")

    why = next(entry["why"] for entry in row.history if "Open MPI" in entry["why"])
    assert "node c" in why
    assert "5" in why
    assert "4" in why
    assert "no retry is charged" in why
    job.cancel()
    boards.wait_nothing_left(job)
