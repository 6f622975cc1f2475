"""Which nodes do not go together, each with one line that says what to do."""

from __future__ import annotations

import pytest

from jetq.launch.fitness import notes, refusals, version
from jetq.model.gang import GangSpec
from tests.unit.launch.hellos import hello

MIB = 2**20


def spec(launcher: str = "torchrun", **more) -> GangSpec:
    return GangSpec(("python", "train.py"), max_nodes=8, launcher=launcher, **more)


def refused(gang, wanted: GangSpec | None = None, **more) -> list[tuple[str, str]]:
    return [(found.node, found.why) for found in refusals(wanted or spec(), gang, **more)]


def test_equal_nodes_go_together():
    assert refused([hello(0), hello(1, torch="2.5.0a0+872d972e41.nv24.8")]) == []
    assert refused([hello(0, torch=None), hello(1, torch=None)], spec("mpirun")) == []
    assert refused([hello(0, open_mpi=None), hello(1, open_mpi=4)]) == []


def test_what_a_member_found_out_itself_is_passed_on():
    assert refused([hello(0), hello(1, refusals=("train is not installed", "no disk"))]) == [
        ("node-1", "train is not installed"),
        ("node-1", "no disk"),
    ]


def test_a_node_without_pytorch_is_named():
    (found,) = refused([hello(0), hello(1, torch=None)])

    assert found[0] == "node-1"
    assert found[1].startswith("PyTorch is not installed beside jetq's Python 3.10.12; install it there")


@pytest.mark.parametrize(
    ("versions", "odd"),
    [
        (("2.5.1", "2.6.0", "2.5.0"), ["node-1"]),
        (("2.6.0", "2.5.1", "2.5.1"), ["node-0"]),
        (("2.5.1", "2.6.0"), ["node-1"]),  # of two the head is right
        (("2.5.1", "2.10.0", "2.10.1"), ["node-0"]),
        (("2.3.1", "2.3.1"), ["node-0", "node-1"]),  # too old
    ],
)
def test_pytorch_of_two_minor_versions_does_not_go_together(versions, odd):
    found = refused([hello(index, torch=one) for index, one in enumerate(versions)])

    assert [node for node, _why in found] == odd


def test_open_mpi_of_two_major_versions_does_not_go_together():
    (found,) = refused([hello(0, open_mpi=4), hello(1)], spec("mpirun"))

    assert found == (
        "node-1",
        "it has Open MPI 5, the others 4: they do not speak with each other; install one major version on all",
    )
    assert "not installed" in refused([hello(0), hello(1, open_mpi=None)], spec("mpirun"))[0][1]
    assert "4 or 5 is needed" in refused([hello(0, open_mpi=3), hello(1, open_mpi=3)], spec("mpirun"))[1][1]


def test_a_full_disk_is_no_place_for_a_member():
    gang = [hello(0, disk_free_bytes=255 * MIB), hello(1, disk_free_bytes=300 * MIB), hello(2, disk_free_bytes=None)]

    assert refused(gang) == [("node-0", "255 MiB of disk are free at /var/m0, but 256 MiB are needed; make room there")]
    assert [node for node, _why in refused(gang, disk_bytes=100 * MIB)] == ["node-0", "node-1"]


def test_members_of_one_machine_share_its_memory():
    wanted = spec(mem_bytes=300 * MIB, ranks=2)
    apart = [hello(0, mem_free_bytes=1000 * MIB), hello(1, mem_free_bytes=1000 * MIB)]
    beside = [hello(n, place="one", mem_free_bytes=1000 * MIB) for n in (0, 1)]

    assert refused(apart, wanted) == []
    assert refused(beside, wanted)[0] == (
        "node-0",
        "1000 MiB of memory are free, but 1.2 GiB are needed (for 2 members on that machine); "
        "end what uses it, or ask for less",
    )
    assert refused([hello(0, mem_free_bytes=None)], wanted) == []


def test_clocks_and_pythons_that_differ_are_noted_not_refused():
    gang = [hello(0), hello(1, skew_s=-90.04, python="3.12.1"), hello(2, skew_s=0.9, python="3.10.2")]

    said = notes(spec(), gang)

    assert refused(gang) == []
    assert len(said) == 2
    assert said[0].startswith("the clock of node node-1 is 90.0 s behind the broker's")
    assert said[1].startswith("node node-1 has Python 3.12.1, the others 3.10")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2.5.1", (2, 5, 1)), ("2.5.0a0+8.nv24", (2, 5, 0)), ("2.13.0+cpu", (2, 13, 0)), ("dev", ()), ("", ())],
)
def test_a_version_is_its_leading_numbers(text, numbers):
    assert version(text) == numbers
