"""Which rank a process is."""

from __future__ import annotations

import pytest

from jetq.errors import UsageError
from jetq.training.seat import Seat, meeting, seat

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Seat(0, 1, 0, 1)),
        ({"WORLD_SIZE": "8"}, Seat(0, 1, 0, 1)),
        (TORCHRUN, Seat(3, 4, 1, 2)),
        (MPIRUN, Seat(2, 4, 0, 2)),
        ({**MPIRUN, **TORCHRUN}, Seat(3, 4, 1, 2)),
    ],
)
def test_a_rank_knows_its_number_from_either_launcher(environ, expected):
    assert seat(environ) == expected


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"RANK": "x"}, "RANK is 'x'"),
        ({"RANK": "-1"}, "RANK is '-1'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is '0'"),
        ({"WORLD_SIZE": None}, "WORLD_SIZE is not set"),
        ({"LOCAL_RANK": None}, "LOCAL_RANK is not set"),
        ({"RANK": "4"}, "rank 4 of 4"),
        ({"LOCAL_RANK": "2"}, "2 of 2 on this machine"),
        ({"LOCAL_WORLD_SIZE": "5"}, "1 of 5 on this machine"),
    ],
)
def test_a_launcher_that_makes_no_sense_is_named(change, complaint):
    environ = {name: value for name, value in {**TORCHRUN, **change}.items() if value is not None}

    with pytest.raises(UsageError, match=complaint):
        seat(environ)


def test_ranks_meet_where_their_launcher_says():
    assert meeting(Seat(1, 2, 0, 1), {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400"}) == ("10.0.0.1", "29400")


def test_ranks_of_a_bare_mpirun_on_one_machine_meet_at_a_port_of_their_own():
    met = {meeting(Seat(rank, 2, rank, 2), {"PMIX_NAMESPACE": "prterun-a-7@1"}) for rank in (0, 1)}
    other = meeting(Seat(0, 2, 0, 2), {"PMIX_NAMESPACE": "prterun-a-8@1"})

    [(address, port)] = met
    assert address == "127.0.0.1"
    assert 20000 <= int(port) < 30000
    assert other[1] != port


@pytest.mark.parametrize(
    ("own", "environ"),
    [(Seat(0, 2, 0, 1), {"PMIX_NAMESPACE": "j"}), (Seat(0, 2, 0, 2), {}), (Seat(0, 2, 0, 2), {"MASTER_ADDR": "a"})],
)
def test_ranks_that_nobody_told_where_to_meet_say_what_to_do(own, environ):
    with pytest.raises(UsageError, match="-x MASTER_ADDR="):
        meeting(own, environ)
