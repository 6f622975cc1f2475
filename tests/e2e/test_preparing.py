"""Members prepare on boards (network namespaces): each interface has another name, all bridges one equal address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks._host import Lan, ip
from jetq.errors import MembersUnfit
from jetq.launch.base import Member, Run
from jetq.launch.meeting import members
from jetq.launch.plans import plan
from jetq.launch.prepare import Hello, Reach
from jetq.model.gang import GangSpec

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: A member up to its plan; the test is the ledger between them. On ports of its peers it has strangers of its own.
MEMBER = """
import json, socket, sys, threading, time
sys.path.insert(0, {root!r})
from jetq import process
from jetq.errors import JetqError
from jetq.launch.prepare import Hello, Reach, listened_for
from jetq.probe import nics, ports, tools
from jetq.probe.ear import Ear, Peer, hear

def stranger(port):
    try:
        listener = ports.listener(low=port, high=port)
    except JetqError:  # a neighbour on this board has it
        return
    while True:
        listener.accept()[0].sendall(b"f" * 32 + b"\\n")

index, folder = int(sys.argv[1]), sys.argv[2]
with Ear() as ear:
    print(json.dumps(Hello(
        node=f"node-{{index}}", index=index, place=process.place(), nonce=ear.nonce, ear_port=ear.port,
        nics=nics.candidates("redis://10.79.0.1:6379"), rendezvous_port=ports.free_port(), slots=2, gpus=0,
        folder=folder, open_mpi=5, torch=tools.torch(), python=tools.python(), disk_free_bytes=None,
        mem_free_bytes=None, skew_s=0.0, refusals=(), checkpoints="").as_json()), flush=True)
    hellos = [Hello.from_json(plain) for plain in json.loads(sys.stdin.readline())]
    peers = [Peer(h.index, h.nonce, h.ear_port, tuple(nic.address for nic in h.nics))
             for h in listened_for(index, hellos)]
    for port in {{peer.port for peer in peers}} - {{ear.port}}:
        threading.Thread(target=stranger, args=(port,), daemon=True).start()
    began_s = time.monotonic()
    heard = hear(peers, {within_s})
    took_s = time.monotonic() - began_s
    reach = Reach(index, {{peer: tuple(voice.address for voice in found) for peer, found in heard.items()}})
    locals = sorted({{voice.local for found in heard.values() for voice in found}})
    print(json.dumps([reach.as_json(), took_s, locals]), flush=True)
    sys.stdin.readline()
"""
ADD_UP = """
import os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print(socket.gethostname(), os.environ["GLOO_SOCKET_IFNAME"], int(total), flush=True)
dist.destroy_process_group()
"""


class Gang:
    """Members on boards, each a process there."""

    def __init__(self, lan: Lan, folder: Path) -> None:
        self.lan = lan
        self.folder = folder
        self._members: list[subprocess.Popen[str]] = []

    def prepare(self, boards: Sequence[int], within_s: float = 6.0) -> tuple[list[Hello], list[Reach], list[float]]:
        """Let a member on each of the boards say hello and listen. Returns what they say, and how long that took."""
        code = MEMBER.format(root=str(ROOT), within_s=within_s)
        for index, board in enumerate(boards):
            (self.folder / str(index) / "work").mkdir(parents=True)
            argv = [sys.executable, "-c", code, str(index), str(self.folder / str(index))]
            self._members.append(
                subprocess.Popen(
                    self.lan.command(board, argv), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
        hellos = [json.loads(self._said(index)) for index in range(len(boards))]
        self.tell(json.dumps(hellos))
        reaches, took, local = zip(*(json.loads(self._said(index)) for index in range(len(boards))), strict=True)
        self.tell("")
        for index, board in enumerate(boards):
            assert set(local[index]) <= {self.lan.address(board)}
        return [Hello.from_json(one) for one in hellos], [Reach.from_json(one) for one in reaches], list(took)

    def tell(self, text: str) -> None:
        for member in self._members:
            assert member.stdin is not None
            print(text, file=member.stdin, flush=True)

    def end(self) -> None:
        for member in self._members:
            member.kill()
            member.communicate()

    def _said(self, index: int) -> str:
        stream = self._members[index].stdout
        assert stream is not None
        line = stream.readline()
        assert line, f"member {index} ended"
        return line


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(["eth0", "enP8p1s0", "wlan0"])
    try:
        yield made.build()
    finally:
        made.remove()


@pytest.fixture
def gang(lan, tmp_path) -> Iterator[Gang]:
    made = Gang(lan, tmp_path)
    try:
        yield made
    finally:
        made.end()


def spec(launcher: str = "torchrun", *argv: str) -> GangSpec:
    return GangSpec(argv or ("python", "train.py"), max_nodes=8, launcher=launcher)


def known(found: Sequence[Member]) -> list[str]:
    return [f"{member.address} {member.network} {member.interface}" for member in found]


def test_the_network_that_joins_them_is_found_and_bridges_of_one_address_fool_nobody(gang):
    hellos, reaches, took_s = gang.prepare([1, 2, 3, 3])

    assert [nic.interface for nic in hellos[1].nics] == ["enP8p1s0", "docker0", "l4tbr0"]
    assert reaches[0].heard == {1: ("10.79.0.2",), 2: ("10.79.0.3",), 3: ("10.79.0.3",)}
    assert 3 not in reaches[2].heard  # on its own board
    assert known(members(spec(), hellos, reaches)) == [
        "10.79.0.1 10.79.0.0/24 eth0",
        "10.79.0.2 10.79.0.0/24 enP8p1s0",
        *["10.79.0.3 10.79.0.0/24 wlan0"] * 2,
    ]
    assert max(took_s) < 3


def test_an_address_that_swallows_what_is_sent_there_costs_a_moment(gang, lan):
    for board in (1, 2):
        ip("-n", lan.name(board), "route", "add", "default", "via", "10.79.0.254")  # nobody has it
    ip("-n", lan.name(2), "address", "add", "10.98.0.2/24", "dev", lan.interfaces[2])

    hellos, reaches, took_s = gang.prepare([1, 2], within_s=30)

    assert "10.98.0.2" in [nic.address for nic in hellos[1].nics]
    assert reaches[0].heard == {1: ("10.79.0.2",)}
    assert max(took_s) < 3


def test_a_board_that_is_cut_off_is_named_and_nobody_waits_for_it_for_long(gang, lan):
    lan.pull(2)

    hellos, reaches, took_s = gang.prepare([1, 2, 3], within_s=2)

    assert max(took_s) < 5
    assert reaches[0].heard == {1: (), 2: ("10.79.0.3",)}
    with pytest.raises(MembersUnfit, match=r"node node-0 cannot reach node node-1: nobody answers at 10\.79\.0\.2"):
        members(spec(), hellos, reaches)
    with pytest.raises(MembersUnfit) as caught:
        members(spec(), hellos, reaches)
    assert caught.value.node == "node-1"


def test_a_board_behind_a_firewall_is_named_as_such(gang, lan):
    inside = ("-n", lan.name(2))
    swallowed = ("iif", "enP8p1s0", "ipproto", "tcp", "dport", "20000-29999", "blackhole")
    ip(*inside, "rule", "add", "pref", "100", "lookup", "local")
    ip(*inside, "rule", "add", "pref", "50", *swallowed)
    ip(*inside, "rule", "delete", "pref", "0")

    hellos, reaches, took_s = gang.prepare([1, 2, 3], within_s=2)

    assert max(took_s) < 5
    assert [sorted(at for at, where in reach.heard.items() if where) for reach in reaches] == [[2], [0, 2], [0]]
    with pytest.raises(MembersUnfit, match="node-1 reaches node-0; see to node-1's firewall") as caught:
        members(spec(), hellos, reaches)
    assert caught.value.node == "node-1"


def test_where_there_is_no_ipv4_they_meet_by_ipv6(gang, lan):
    for board, interface in lan.interfaces.items():
        inside = ("-n", lan.name(board))
        ip(*inside, "address", "delete", f"{lan.address(board)}/24", "dev", interface)
        ip(*inside, "address", "add", f"fd79::{board}/64", "dev", interface, "nodad")

    lan.address = "fd79::{}".format  # type: ignore[method-assign]
    hellos, reaches, _took_s = gang.prepare([1, 2])

    assert known(members(spec(), hellos, reaches)) == ["fd79::1 fd79::/64 eth0", "fd79::2 fd79::/64 enP8p1s0"]


def test_where_pytorch_would_listen_at_an_address_that_peers_do_not_reach_it_is_said_before(gang, lan):
    for board, interface in lan.interfaces.items():  # each has got an address of a network of its own first
        inside = ("-n", lan.name(board))
        ip(*inside, "address", "delete", f"{lan.address(board)}/24", "dev", interface)
        ip(*inside, "address", "add", f"10.98.{board}.5/24", "dev", interface)
        ip(*inside, "address", "add", f"{lan.address(board)}/24", "dev", interface)

    hellos, reaches, _took_s = gang.prepare([1, 2], within_s=2)

    with pytest.raises(MembersUnfit, match=r"reached at 10\.79\.0\.1, but PyTorch listens at .* eth0 \(10\.98\.1\.5\)"):
        members(spec(), hellos, reaches)
    assert known(members(spec("mpirun"), hellos, reaches))[1] == "10.79.0.2 10.79.0.0/24 enP8p1s0"


def test_torchrun_starts_on_boards_of_one_host_name_that_leads_to_themselves(gang, lan, tmp_path):
    hellos, reaches, _took_s = gang.prepare([1, 2])
    script = tmp_path / "add_up.py"
    script.write_text(ADD_UP)
    wanted = spec("torchrun", "python", str(script))

    made = plan(wanted, members(wanted, hellos, reaches), Run("g.1", hellos[0].rendezvous_port))
    around = {"PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            lan.command(board, start.argv),
            env={**os.environ, **start.env, **around},
            cwd=start.cwd,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for board, start in zip((1, 2), made.starts, strict=True)
    ]
    try:
        said = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()

    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "board eth0 3" in said[0]
    assert "board enP8p1s0 3" in said[1]
