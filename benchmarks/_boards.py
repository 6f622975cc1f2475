"""Four boards on one switch (network namespaces, as root): bare launchers between them, and a node of jetq on each."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks._host import Lan
from benchmarks._workers import APP_DIR, ROOT, settings, wait
from jetq import process
from jetq.store.redis import RedisStore

#: What a rank does: a line at once, which nothing else writes.
HELLO = "hello from a rank"
#: It stays a moment: where all ranks end at once, Open MPI 5.0.11 hangs at the end of 1 job in 10 to 20, also alone.
COMMAND = ("sh", "-c", f"echo {HELLO}; sleep 0.5")
BOARDS, INTERFACE = 4, "eth0"
#: Longest wait for a line and for an end, and for all nodes to be up (s).
LINE_S, UP_S = 60.0, 120.0
BIN = Path(sys.executable).parent
#: Runs a command on a board.
_ENTER = """#!/bin/sh
export TMPDIR={own}
exec ip netns exec {network} unshare -mu sh -c 'hostname {name} && mount --bind $TMPDIR/hosts /etc/hosts && exec "$@"' \
    sh "$@"
"""
#: The launch agent of bare mpirun: the last part of the address is the number of the board.
_AGENT = """#!/bin/sh
board=${{1##*.}}; shift
exec {folder}/on-$board sh -c "$*"
"""


class Bare:
    """The launchers as a person would call them who sits on all the boards at once."""

    def __init__(self, lan: Lan, folder: Path) -> None:
        """``folder``: keeps the hostfile, the launch agent, and what each board has for its own."""
        self._lan, self._folder = lan, folder
        self._launches = 0
        addresses = [lan.address(board) for board in range(1, BOARDS + 1)]
        (folder / "hosts").write_text("".join(f"{address} slots=1\n" for address in addresses))
        _script(folder / "agent", _AGENT.format(folder=folder))
        for board in range(1, BOARDS + 1):
            own = folder / f"board{board}"
            own.mkdir()
            (own / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {own.name}\n")
            _script(folder / f"on-{board}", _ENTER.format(own=own, network=lan.name(board), name=own.name))

    def mpirun(self) -> float:
        """Return the time from the start of mpirun to a rank's first line (s)."""
        runtime = ["--prtemca", "plm_ssh_agent", str(self._folder / "agent"), "--prtemca", "prte_if_include", INTERFACE]
        apart = ["--mca", "btl_tcp_if_include", self._lan.network, "--bind-to", "none"]
        argv = ["mpirun", "--allow-run-as-root", "-np", str(BOARDS), "--hostfile", str(self._folder / "hosts")]
        return first_line([[str(self._folder / "on-1"), *argv, *runtime, *apart, *COMMAND]], self.environment)

    def torchrun(self) -> float:
        """Return the time from the start of torchrun on all boards to the first line (s)."""
        self._launches += 1
        meeting = f"{self._lan.address(1)}:{30_000 + self._launches % 1000}"  # members lease below
        argv = ["torchrun", "--nnodes", str(BOARDS), "--nproc-per-node", "1", "--rdzv-backend", "static"]
        argv += ["--rdzv-endpoint", meeting, "--no-python"]
        everywhere = [
            [str(self._folder / f"on-{number + 1}"), *argv, "--node-rank", str(number), *COMMAND]
            for number in range(BOARDS)
        ]
        return first_line(everywhere, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """What launchers have in their environment: the programs of this Python first."""
        return {**clean(), "PATH": f"{BIN}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": INTERFACE}


@contextmanager
def nodes(lan: Lan, url: str, store: RedisStore, folder: Path) -> Iterator[None]:
    """Run a node on each board; all are up, and are gone at the end."""
    names = {f"n{board}" for board in range(1, BOARDS + 1)}
    with ExitStack() as stack:
        for board, name in enumerate(sorted(names), start=1):
            flags = ("--name", name, "--slots", "2", "--app-dir", str(APP_DIR), "--grace", "1")
            env = {**clean(), **settings(url).as_environ(), "JETQ_DIR": str(folder / name)}
            out = stack.enter_context((folder / f"{name}.log").open("wb"))
            argv = lan.command(board, process.self_argv("worker", *flags), hostname=f"board{board}")
            child = process.spawn(argv, env=env, cwd=ROOT, stdout=out, stderr=out)
            stack.callback(_stop, child)
            stack.callback(child.signal, 15)  # all are asked first, then each is waited for
        wait(lambda: {row.name for row in store.nodes() if row.state == "up"} >= names, UP_S, "the nodes to be up")
        yield


def first_line(commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> float:
    """Start commands at once, and return the time until one of them writes a rank's line (s); all have ended then.

    Raises:
        RuntimeError: one failed, or there was no such line.
    """
    read_fd, write_fd = os.pipe()
    begin_s = time.monotonic()
    running = [  # each in a session of its own, as members' processes are: on a busy machine a session has one share
        subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=write_fd, stderr=write_fd, start_new_session=True
        )
        for argv in commands
    ]
    os.close(write_fd)
    took_s, said = 0.0, b""
    with os.fdopen(read_fd, "rb", buffering=0) as output:
        while select.select([output], [], [], LINE_S)[0] and (chunk := output.read(65536)):
            said += chunk
            if not took_s and HELLO.encode() in said:
                took_s = time.monotonic() - begin_s
    try:
        failed = any(popen.wait(LINE_S) for popen in running)
    except subprocess.TimeoutExpired:  # the launcher hangs
        failed = True
    if failed or not took_s:
        for popen in running:
            if popen.poll() is None:
                os.killpg(popen.pid, signal.SIGKILL)
                popen.wait()
        raise RuntimeError(f"{commands[0]} failed or hangs: {said.decode(errors='replace')[-2000:]}")
    return took_s


def clean() -> dict[str, str]:
    """Return our environment without what is said to jetq."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JETQ_")}


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _stop(child: process.Child) -> None:
    if child.wait(20) is None:
        child.kill()
