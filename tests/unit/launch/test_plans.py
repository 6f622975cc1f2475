"""What a launcher starts, as a table: Open MPI 4 and 5, one machine and many, two nodes on one machine."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jetq.errors import MembersUnfit
from jetq.launch.base import Member, Plan, Run, threads
from jetq.launch.plans import plan
from jetq.launch.ssh import ENVIRONMENT, environment
from jetq.model.gang import GangSpec

RUN = Run("g7.1", 29400, {"JETQ_JOB_ID": "g7"}, agent=("/opt/jetq/bin/jetq", "exec"))

#: Of three machines; the second has two nodes.
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.4")


def member(number: int, address: str = "", **facts) -> Member:
    address = address or f"10.0.0.{number}"
    usual = {"network": "10.0.0.0/24", "interface": f"eth{number}", "folder": f"/var/m{number}", "slots": 8.0}
    return Member(f"node-{number}", address, **{**usual, "open_mpi": 5, **facts})


def spec(launcher: str = "mpirun", nodes: int = 3, **more) -> GangSpec:
    return GangSpec(("python", "train.py"), min_nodes=1, max_nodes=nodes, launcher=launcher, **more)


def flags(made: Plan) -> list[str]:
    """The head's command line, up to what it starts as a rank."""
    argv = list(made.starts[0].argv)
    return argv[: argv.index("/bin/sh")]


def has(words: list[str], *wanted: str) -> bool:
    """Whether words stand in this order next to each other."""
    return any(tuple(words[at : at + len(wanted)]) == wanted for at in range(len(words)))


def run(*argv: str, path: str = os.environ["PATH"], **env: str) -> list[str]:
    """What a command prints, line by line."""
    done = subprocess.run(argv, env={"PATH": path, **env}, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.splitlines()


def test_torchrun_meets_at_the_first_members_literal_address():
    made = plan(spec("torchrun", ranks=2, env={"A": "1"}), [member(1), member(2)], RUN)

    first, second = made.starts
    assert " ".join(second.argv) == (
        "torchrun --nnodes 2 --nproc-per-node 2 --node-rank 1 --rdzv-backend static --rdzv-endpoint 10.0.0.1:29400 "
        "--rdzv-id g7.1 --local-addr 10.0.0.2 --max-restarts 0 --log-dir /var/m2/ranks --tee 3 --no-python "
        "python train.py"
    )
    assert (first.ranks, second.ranks) == ((0, 1), (2, 3))
    assert second.env == {
        **{"GLOO_SOCKET_IFNAME": "eth2", "NCCL_SOCKET_IFNAME": "=eth2", "TP_SOCKET_IFNAME": "eth2"},
        **{"PYTHONUNBUFFERED": "1", "A": "1", "JETQ_JOB_ID": "g7", "JETQ_WORKDIR": "/var/m2/work"},
    }
    assert (second.cwd, second.files, second.answers_for) == ("/var/m2/work", {}, "")


def test_torchrun_takes_ipv6():
    members = [member(n, f"fd00::{n}", network="fd00::/64") for n in (1, 2)]

    assert has(list(plan(spec("torchrun"), members, RUN).starts[1].argv), "--rdzv-endpoint", "[fd00::1]:29400")


@pytest.mark.parametrize(
    ("major", "runtime"),
    [
        (
            4,
            "--tag-output --leave-session-attached --mca plm_rsh_agent /opt/jetq/bin/jetq+exec "
            "--mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.0.0.0/24",
        ),
        (
            5,
            "--output tag --leave-session-attached --prtemca plm_ssh_agent /opt/jetq/bin/jetq+exec "
            "--prtemca plm_ssh_no_tree_spawn 1 --prtemca prte_if_include eth1",
        ),
    ],
)
def test_mpirun_reaches_other_machines_through_jetq(major, runtime):
    made = plan(spec(ranks=2, env={"A": "x y"}), [member(n, open_mpi=major) for n in (1, 2, 3)], RUN)

    head, *others = made.starts
    wanted = [word.replace("+", " ") for word in runtime.split()]
    exported = [w for n in ("A", "JETQ_JOB_ID", "MASTER_ADDR", "MASTER_PORT", "PYTHONUNBUFFERED") for w in ("-x", n)]
    assert flags(made) == [
        *("mpirun", "-np", "6", "--hostfile", "/var/m1/hostfile", "--map-by", "slot", "--bind-to", "none"),
        *("--wdir", "/"),
        *wanted,
        *("--mca", "btl_tcp_if_include", "10.0.0.0/24"),
        *exported,
    ]
    assert head.argv[-3:] == ("jetq", "python", "train.py")
    assert head.files == {
        "/var/m1/hostfile": "10.0.0.1 slots=2  # node-1\n10.0.0.2 slots=2  # node-2\n10.0.0.3 slots=2  # node-3\n"
    }
    assert [(start.argv, start.answers_for, start.ranks) for start in others] == [
        ((), "10.0.0.2", (2, 3)),
        ((), "10.0.0.3", (4, 5)),
    ]
    assert (head.env["A"], head.env["MASTER_ADDR"], head.env["MASTER_PORT"]) == ("x y", "10.0.0.1", "29400")
    assert [start.env["GLOO_SOCKET_IFNAME"] for start in made.starts] == ["eth1", "eth2", "eth3"]


@pytest.mark.parametrize("major", [4, 5])
def test_a_gang_on_one_machine_asks_for_no_daemon_and_no_network(major):
    here = {"network": "127.0.0.0/8", "interface": "lo", "open_mpi": major}
    made = plan(spec(ranks=2), [member(n, "127.0.0.1", **here) for n in (1, 2)], RUN)

    assert made.starts[0].files == {"/var/m1/hostfile": "127.0.0.1 slots=4  # node-1 node-2\n"}
    assert has(flags(made), "-np", "4")
    assert not [word for word in flags(made) if "mca" in word or "if_include" in word or "session" in word]
    assert [(s.ranks, s.argv == (), s.answers_for) for s in made.starts] == [((0, 1), False, ""), ((2, 3), True, "")]


def test_nodes_of_one_machine_share_a_line_and_the_first_of_them_answers_for_it():
    members = [member(1), member(2), member(3, "10.0.0.2"), member(4, "10.0.0.1")]
    made = plan(spec(nodes=4), members, RUN)

    assert made.starts[0].files["/var/m1/hostfile"].splitlines() == [
        "10.0.0.1 slots=2  # node-1 node-4",
        "10.0.0.2 slots=2  # node-2 node-3",
    ]
    assert {s.node: (s.ranks, s.answers_for) for s in made.starts} == {
        "node-1": ((0,), ""),
        "node-4": ((1,), ""),
        "node-2": ((2,), "10.0.0.2"),
        "node-3": ((3,), ""),
    }


def test_members_in_two_networks_may_use_both():
    made = plan(spec(), [member(1, open_mpi=4), member(2, "10.0.1.2", network="10.0.1.0/24", open_mpi=4)], RUN)

    assert has(flags(made), "oob_tcp_if_include", "10.0.0.0/24,10.0.1.0/24")
    assert has(flags(made), "btl_tcp_if_include", "10.0.0.0/24,10.0.1.0/24")


def test_by_ssh_each_daemon_belongs_to_the_member_on_its_machine():
    members = [member(1), member(2), member(3, "10.0.0.2"), member(4, "10.0.0.4")]
    made = plan(spec(nodes=4, transport="ssh"), members, RUN)

    script = made.starts[0].files["/var/m1/ssh"]
    assert has(flags(made), "--prtemca", "plm_ssh_agent", "/bin/sh /var/m1/ssh", "--prtemca", "plm_ssh_no_tree_spawn")
    assert (
        "10.0.0.2) node=node-2 member=g7.1.1 interface=eth2;;\n10.0.0.4) node=node-4 member=g7.1.3 interface=eth4;;\n"
        in script
    )
    assert "ssh -o BatchMode=yes -o ConnectTimeout=5 -o ConnectionAttempts=3" in script
    assert [start.answers_for for start in made.starts] == [""] * 4


def test_by_ssh_the_daemon_hears_of_the_interface_of_its_own_machine(tmp_path):
    made = plan(spec(transport="ssh"), [member(1), member(2)], RUN)
    (tmp_path / "script").write_text(made.starts[0].files["/var/m1/ssh"])
    (tmp_path / "ssh").write_text('#!/bin/sh\nshift 6; printf "%s\\n" "$@"\n')
    (tmp_path / "ssh").chmod(0o700)
    words = ["10.0.0.2", "/opt/prted", "--prtemca", "prte_if_include", '"eth1"', "--prtemca", "plm", '"ssh"']

    said = run("/bin/sh", str(tmp_path / "script"), *words, path=f"{tmp_path}:/usr/bin:/bin")

    start = "JETQ_MEMBER=g7.1.1; export JETQ_MEMBER; "
    assert said == ["10.0.0.2", f'{start}/opt/prted --prtemca prte_if_include "eth2" --prtemca plm "ssh"']
    assert not (tmp_path / "script.node-2").exists()


def test_by_ssh_a_rank_reads_what_the_member_on_its_machine_has_left(tmp_path):
    members = [member(n, address, folder=str(tmp_path / str(n))) for n, address in enumerate(ADDRESSES)]
    for own in members:
        Path(own.work).mkdir(parents=True)
        Path(own.folder, ENVIRONMENT).write_text(environment({"JETQ_WORKDIR": own.work, "A": own.node, "no-name": "x"}))
    made = plan(spec(nodes=4, ranks=2, transport="ssh"), members, RUN)
    at = made.starts[0].argv.index("-c")
    script = made.starts[0].argv[at + 1]

    told = {}
    for rank in range(8):
        env = {"OMPI_COMM_WORLD_RANK": str(rank), "JETQ_WORKDIR": str(tmp_path), "A": "head's"}
        told[rank] = run("/bin/sh", "-c", script, "jetq", "sh", "-c", "echo $A; pwd", **env)

    assert told[0] == told[1] == ["head's", str(tmp_path)]
    assert told[2] == told[3] == told[4] == told[5] == ["node-1", members[1].work]
    assert told[6] == told[7] == ["node-3", members[3].work]


def test_a_gang_on_one_machine_needs_no_ssh():
    here = {"network": "127.0.0.0/8", "interface": "lo"}
    made = plan(spec(transport="ssh"), [member(n, "127.0.0.1", **here) for n in (1, 2)], RUN)

    assert list(made.starts[0].files) == ["/var/m1/hostfile"]
    assert "read=" not in made.starts[0].argv[made.starts[0].argv.index("-c") + 1]


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_what_somebody_sets_stands_above_what_jetq_would_choose(launcher):
    made = plan(spec(launcher, env={"GLOO_SOCKET_IFNAME": "wlan0", "PYTHONUNBUFFERED": ""}), [member(1)], RUN)

    assert (made.starts[0].env["GLOO_SOCKET_IFNAME"], made.starts[0].env["PYTHONUNBUFFERED"]) == ("wlan0", "")


def test_root_is_let_in_only_when_asked():
    assert "--allow-run-as-root" not in plan(spec(), [member(1)], RUN).starts[0].argv
    assert "--allow-run-as-root" in plan(spec(as_root=True), [member(1)], RUN).starts[0].argv


@pytest.mark.parametrize(
    ("addresses", "ranks", "expected"),
    [
        (["10.0.0.1", "10.0.0.2"], 1, {}),
        (["10.0.0.1", "10.0.0.2"], 2, {"OMP_NUM_THREADS": "3"}),
        (["127.0.0.1"] * 4, 1, {"OMP_NUM_THREADS": "1"}),
        (["127.0.0.1"] * 4, 8, {"OMP_NUM_THREADS": "1"}),
        (["10.0.0.1", "10.0.0.1", "10.0.0.2"], 1, {"OMP_NUM_THREADS": "3"}),
    ],
)
def test_ranks_that_share_a_machine_share_its_cores(addresses, ranks, expected):
    members = [member(n, address) for n, address in enumerate(addresses, start=1)]

    assert threads(members, ranks, "node-1", 6) == expected


def test_a_plan_is_plain_values():
    made = plan(spec(), [member(1), member(2)], RUN)

    plain = json.loads(json.dumps(made.as_json()))
    assert plain["launcher"] == "mpirun"
    assert [one["answers_for"] for one in plain["members"]] == ["", "10.0.0.2"]


@pytest.mark.parametrize(
    ("asked", "members", "complaint"),
    [
        (spec(nodes=1), [member(1), member(2)], "1 to 1 nodes, not on 2"),
        (spec(), [], "not on 0"),
        (spec(), [member(1), member(1, "10.0.0.9")], "given twice"),
        (spec(), [member(1), replace(member(2), address="board-2")], "node-2: 'board-2'"),
        (spec(), [member(1, network="10.0.0.1/24")], "node-1: 10.0.0.1/24 has host bits"),
        (spec(), [member(1, "10.9.0.1")], "no address in its network"),
        (spec(), [member(1, "0.0.0.0", network="0.0.0.0/0")], "no address in its network"),
        (spec(), [member(1), member(2, "127.0.0.1", network="127.0.0.0/8")], "no other machine reaches"),
        (spec("torchrun"), [member(1), member(2, "fd00::2", network="fd00::/64")], "cannot meet"),
        (spec(), [member(1, "fd00::1", network="fd00::/64")], "needs an IPv4 address; use torchrun"),
        (spec(), [member(1), member(2, open_mpi=4)], "node-1 has Open MPI 5, node-2 has 4"),
        (spec(), [member(1), member(2, open_mpi=None)], "node-2 has no Open MPI"),
        (spec(), [member(1, open_mpi=3)], "Open MPI 3, but 4 or 5"),
        (spec(ranks=4, slots=3), [member(1)], "8 slots, but the gang needs 12"),
        (spec("torchrun", gpu=1), [member(1)], "no GPU"),
    ],
)
def test_members_that_cannot_run_it_are_named(asked, members, complaint):
    with pytest.raises(MembersUnfit) as refused:
        plan(asked, members, RUN)

    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("agent", [("/my jetq/bin/jetq", "exec"), ("/a:b/jetq",), ("",)])
def test_an_agent_that_open_mpi_would_cut_apart_is_refused(agent):
    with pytest.raises(MembersUnfit, match="without spaces and colons"):
        plan(spec(), [member(1), member(2)], replace(RUN, agent=agent))
