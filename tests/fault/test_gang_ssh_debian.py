"""Gangs by ssh and the system's own Open MPI 4 (as JetPack has it by apt)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fault.sshd import boards_with_sshd

pytestmark = pytest.mark.xdist_group("gang-ssh")
HOW = {"nodes": 2, "transport": "ssh"}


def test_by_ssh_the_systems_open_mpi_4_does_the_same(tmp_path_factory):
    path = f"/usr/bin:/bin:/usr/sbin:/sbin:{Path(sys.executable).parent}"  # the system's comes before this Python's
    with boards_with_sshd(tmp_path_factory.mktemp("debian"), PATH=path) as (boards, _servers):
        good = boards.gang("sh", "-c", 'echo "$(hostname) $RANK/$WORLD_SIZE $JETQ_NODE"', **HOW)
        assert good.wait(60).state == "SUCCEEDED", boards.lines(good)
        said = {line for line in boards.lines(good) if not line.startswith("None: ")}
        bad = boards.gang("sh", "-c", 'setsid sleep 600 & [ "$RANK" = 1 ] && { sleep 1; exit 3; }; sleep 600', **HOW)
        row = bad.wait(60)
        boards.wait_nothing_left(good)
        boards.wait_nothing_left(bad)

    assert said == {"0: nano1 0/2 a", "1: nano2 1/2 b"} or said == {"0: nano2 0/2 b", "1: nano1 1/2 a"}
    assert (row.state, row.exit_code) == ("FAILED", 3)
