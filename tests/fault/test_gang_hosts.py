"""Gangs on boards: each with its own network, host name, /tmp and home."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault.boards import Boards
from tests.fault.boards import boards as build

pytestmark = pytest.mark.xdist_group("gang-hosts")
ADD_UP = """
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print(socket.gethostname(), os.environ["GLOO_SOCKET_IFNAME"], int(total), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(
    scope="module", params=[("nameless1", "nameless2", "nameless3"), ("ubuntu",) * 3], ids=["unknown names", "one name"]
)
def boards(request, tmp_path_factory) -> Iterator[Boards]:
    """Give three boards with a node on each; their host names lead nowhere, or are the same and lead to themselves."""
    with build(tmp_path_factory.mktemp("boards"), request.param) as made:
        made.start_all()
        yield made


def said(boards, job) -> set[str]:
    return {line.partition(": ")[2] for line in boards.lines(job) if not line.startswith("None: ")}


def test_mpirun_runs_on_boards_with_other_interface_names_and_equal_bridges(boards):
    job = boards.gang("sh", "-c", 'echo "$(hostname) $RANK/$WORLD_SIZE $GLOO_SOCKET_IFNAME $(ls /tmp/home)"')

    assert job.wait(60).state == "SUCCEEDED", boards.lines(job)
    first, second, third = (board.host for board in boards.boards.values())
    assert said(boards, job) == {f"{first} 0/3 eth0 a", f"{second} 1/3 enP8p1s0 b", f"{third} 2/3 wlan0 c"}
    boards.wait_nothing_left(job)


def test_torchrun_adds_up_on_boards_with_other_interface_names_and_equal_bridges(boards, tmp_path):
    (tmp_path / "add_up.py").write_text(ADD_UP)

    job = boards.gang("python", "add_up.py", launcher="torchrun", workdir=tmp_path)

    assert job.wait(120).state == "SUCCEEDED", boards.lines(job)
    first, second, third = (board.host for board in boards.boards.values())
    assert said(boards, job) >= {f"{first} eth0 6", f"{second} enP8p1s0 6", f"{third} wlan0 6"}
    boards.wait_nothing_left(job)
