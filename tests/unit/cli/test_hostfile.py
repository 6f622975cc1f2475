"""`jetq hostfile` prints what an mpirun reads, or one line that says what to do."""

from __future__ import annotations

import json


def test_the_hostfile_of_live_nodes(yard, jetq):
    yard.node("oak", 3)
    yard.node("elm", 1)
    yard.node("pine", 2, address="10.0.0.2")
    yard.node("ash", 2, address="10.0.0.3")
    yard.store.drain("ash", "new kernel", grace_s=1)

    assert jetq("hostfile") == (
        0,
        "10.0.0.1 slots=4  # elm oak\n10.0.0.2 slots=2  # pine\n",
        "without node ash: it is drained\n",
    )
    assert jetq("hostfile", "--slots", "cores")[1] == "10.0.0.1 slots=6  # elm oak\n10.0.0.2 slots=6  # pine\n"
    assert json.loads(jetq("hostfile", "--slots", "2", "--json")[1]) == [
        {"address": "10.0.0.1", "slots": 2, "nodes": ["elm", "oak"]},
        {"address": "10.0.0.2", "slots": 2, "nodes": ["pine"]},
    ]


def test_what_is_asked_wrongly_is_one_line(yard, jetq):
    yard.node("oak")

    assert jetq("hostfile", "--slots", "many") == (
        2,
        "",
        "jetq: --slots must be cores, gpu or a number from 1 to 1024, not 'many'\n",
    )
    assert jetq("hostfile", "--slots", "gpu") == (1, "", "jetq: no node that is up has a GPU; leave out --slots gpu\n")


def test_without_nodes_there_is_no_hostfile(yard, jetq):
    code, out, err = jetq("hostfile")

    assert (code, out) == (1, "")
    assert err.startswith("jetq: no node is up; start one")
