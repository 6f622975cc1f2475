"""sshd on boards, as a user has set it up there: own host keys, one user key, a port that ssh's own config names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fault.boards import Board, Boards, wait
from tests.fault.boards import boards as build

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


@contextmanager
def boards_with_sshd(folder: Path, **environment: str) -> Iterator[tuple[Boards, dict[int, Sshd]]]:
    """Give two boards with a node on each, and their sshd. ``environment``: of the nodes."""
    keygen("-f", str(folder / "key"))
    with build(folder, ("nano1", "nano2")) as made:
        servers = {board.number: Sshd(made, board, folder / "key") for board in made.boards.values()}
        for board in made.boards.values():
            known = "".join(server.known_as for server in servers.values())
            (board.tmp / "home" / ".ssh" / "known_hosts").write_text(known)
        try:
            for server in servers.values():
                server.start()
            made.start_all(**environment)
            yield made, servers
        finally:
            for server in servers.values():
                server.stop()
