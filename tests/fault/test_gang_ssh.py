"""Gangs of mpirun by ssh, with a real sshd on each board: they end as others do, and leave nothing on any of them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.boards import Board, Boards, carriers, wait
from tests.fault.boards import boards as build

pytestmark = pytest.mark.xdist_group("gang-ssh")
PORT = 2222
#: sshd wants a folder of its own below /run, which it shares with nobody here.
_SSHD = 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$0" -D -e -f "$1"'
#: What the user of a node sets, and nobody else: sshd's port, the key, whose keys are known.
_CONFIG = """
Host 10.*
    Port {port}
    IdentityFile ~/.ssh/id_ed25519
    UserKnownHostsFile ~/.ssh/known_hosts
"""
_SERVER = """
Port {port}
HostKey {folder}/host_key
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""


class Sshd:
    """sshd on one board. Its user may log in with the key of all boards."""

    def __init__(self, boards: Boards, board: Board, key: Path) -> None:
        self._folder = board.tmp / "sshd"
        self._folder.mkdir()
        self._board = board
        keygen("-f", str(self._folder / "host_key"))
        home = board.tmp / "home" / ".ssh"
        home.mkdir(mode=0o700)
        shutil.copy(key, home / "id_ed25519")
        (home / "config").write_text(_CONFIG.format(port=PORT))
        (home / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
        (self._folder / "config").write_text(_SERVER.format(port=PORT, folder="/tmp/sshd"))
        self._address = boards.lan.address(board.number)
        self.popen: subprocess.Popen[bytes] | None = None

    @property
    def known_as(self) -> str:
        """Its line in known_hosts."""
        return f"[{self._address}]:{PORT} {(self._folder / 'host_key.pub').read_text()}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
        argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", _SSHD, server, "/tmp/sshd/config"]
        log = self._folder / "log"
        with log.open("w") as out:
            self.popen = subprocess.Popen(self._board.command(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        wait(lambda: "Server listening" in log.read_text(), 10, "sshd", row=log.read_text)

    def stop(self) -> None:
        """End it."""
        if self.popen is not None:
            self.popen.terminate()
            self.popen.wait(10)
            self.popen = None


def keygen(*words: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", *words], check=True, timeout=10)


@pytest.fixture(scope="module")
def boards(tmp_path_factory) -> Iterator[Boards]:
    """Give two boards with a node on each, and sshd."""
    folder = tmp_path_factory.mktemp("boards")
    keygen("-f", str(folder / "key"))
    with build(folder, ("nano1", "nano2")) as made:
        servers = {board.number: Sshd(made, board, folder / "key") for board in made.boards.values()}
        for board in made.boards.values():
            known = "".join(server.known_as for server in servers.values())
            (board.tmp / "home" / ".ssh" / "known_hosts").write_text(known)
        try:
            for server in servers.values():
                server.start()
            made.start_all()
            made.servers = servers
            yield made
        finally:
            for server in servers.values():
                server.stop()


@pytest.fixture(autouse=True)
def _end_all(boards: Boards) -> Iterator[None]:
    """Let no gang of a test that failed stand in the way of the next."""
    yield
    for row in boards.ledger.jobs(100):
        if not row.ended:
            boards.ledger.cancel(row.id, "its test is over")


def gang(boards: Boards, script: str, **how):
    return boards.gang("sh", "-c", script, nodes=2, transport="ssh", **how)


def test_by_ssh_ranks_run_on_both_boards_each_in_its_own_surroundings(boards, tmp_path):
    (tmp_path / "data").write_text("brought along")
    say = 'echo "$(hostname) $RANK/$WORLD_SIZE $GLOO_SOCKET_IFNAME $JETQ_NODE $A $(cat data)"'

    job = gang(boards, say, ranks=2, slots=0.5, workdir=tmp_path, env={"A": "x 'y' $z"})

    assert job.wait(60).state == "SUCCEEDED", boards.lines(job)
    assert sorted(line for line in boards.lines(job) if not line.startswith("None: ")) == [
        "0: nano1 0/4 eth0 a x 'y' $z brought along",
        "1: nano1 1/4 eth0 a x 'y' $z brought along",
        "2: nano2 2/4 enP8p1s0 b x 'y' $z brought along",
        "3: nano2 3/4 enP8p1s0 b x 'y' $z brought along",
    ]
    boards.wait_nothing_left(job)


@pytest.mark.parametrize("rank", [0, 1])
def test_by_ssh_the_exit_code_of_a_rank_comes_back_and_nothing_of_the_others_is_left(boards, rank):
    job = gang(boards, f'setsid sleep 600 & [ "$RANK" = {rank} ] && {{ sleep 1; echo no data; exit 3; }}; sleep 600')
    row = job.wait(60)

    assert (row.state, row.exit_code) == ("FAILED", 3), boards.lines(job)
    assert f"rank {rank} on {row.nodes[rank]} exited with code 3" in row.error
    boards.wait_nothing_left(job)


def test_by_ssh_each_rank_is_asked_to_end_and_has_its_time_and_nothing_is_left(boards):
    saves = 'setsid sleep 600 & trap "sleep 1; echo saved $RANK; exit 0" TERM; echo "begins $RANK"; sleep 600 & wait'
    job = gang(boards, saves)
    boards.say(job, "begins", 2)

    job.cancel()
    row = job.wait(20)

    assert row.state == "CANCELLED"
    assert {"0: saved 0", "1: saved 1"} <= set(boards.lines(job))
    boards.wait_nothing_left(job)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("rank", "was killed by signal 9 (SIGKILL)"),
        ("prted", "lost mpirun's daemon"),
        ("sshd", "lost mpirun's daemon"),
        ("ssh", "lost mpirun's daemon"),
        ("script", "lost mpirun's daemon"),
        ("prterun", "mpirun was killed by signal 9 (SIGKILL)"),
        ("lane", "was lost: its lane died"),
    ],
)
def test_by_ssh_kill_9_ends_the_start_and_nothing_of_it_is_left(boards, what, why):
    job = gang(boards, 'setsid sleep 600 & echo "begins $RANK"; [ "$JETQ_ATTEMPT" = 1 ] && sleep 600; exit 0')
    boards.say(job, "begins", 2)

    os.kill(victim(boards, job, what), signal.SIGKILL)
    row = job.wait(40)

    assert row.state == ("FAILED" if what == "rank" else "SUCCEEDED")
    assert why in " | ".join(event["why"] for event in row.history)
    boards.wait_nothing_left(job)


def victim(boards: Boards, job, what: str) -> int:
    """Return the pid of what shall be killed."""
    lines = carriers(job.id)
    if what == "lane":
        return next(node for node in boards.nodes if node.name == job.row().nodes[1]).pid_of("processes")
    if what == "rank":
        return next(pid for pid, line in lines.items() if line.startswith("sh -c") and variable(pid, "RANK") == "1")
    if what == "script":
        return next(pid for pid, line in lines.items() if line.startswith("/bin/sh /"))
    pid = next(pid for pid, line in lines.items() if Path(line.split()[0]).name == what.replace("sshd", "prted"))
    while what == "sshd" and not Path(f"/proc/{pid}/cmdline").read_text().startswith("sshd"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().split()[3])
    return pid


def variable(pid: int, name: str) -> str:
    """Return a variable that a process was started with, "" if it has none."""
    carried = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next((part.partition("=")[2] for part in carried if part.startswith(f"{name}=")), "")


def test_by_ssh_a_board_without_sshd_is_named_within_seconds(boards):
    for server in boards.servers.values():  # either may be the head, which needs none
        server.stop()
    try:
        began_s = time.monotonic()
        job = gang(boards, "true")
        row = boards.until(job, lambda row: any(e["what"] == "left" for e in row.history), 20, "its refusal")
        took_s = time.monotonic() - began_s
        job.cancel()
        job.wait(10)
    finally:
        for server in boards.servers.values():
            server.start()

    assert took_s < 8
    why = next(event["why"] for event in row.history if event["what"] == "left")
    assert re.match(r"node (a|b): ssh from (a|b) does not get in \(connect to host .*: Connection refused\); ", why)
    assert "\n" not in why
    boards.wait_nothing_left(job)
