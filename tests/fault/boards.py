"""Boards on one switch, a broker beside them, and real nodes on them, for gangs of several hosts.

Each board has its own network, host name, /tmp, home and JETQ_DIR; its interface has another name
than its neighbours', and its docker0 and l4tbr0 have one address on all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks._host import Lan
from jetq import JetQ, process
from jetq.job import Job
from jetq.model.job import JobRow
from jetq.store.redis import RedisStore, connect
from tests.conftest import Broker
from tests.fault.node import Node, start

ROOT = Path(__file__).resolve().parents[2]
INTERFACES = ("eth0", "enP8p1s0", "wlan0", "eno1", "end0", "eth1")
#: Runs in a new mount and UTS namespace: what a board has for its own. It lives until its input ends.
_SETUP = """
hostname "$1"; own=$2; shift 2
mount --bind "$own/hosts" /etc/hosts
mount --bind "$own/passwd" /etc/passwd
for kept; do mkdir -p "$own$kept"; mount --rbind "$kept" "$own$kept"; done
mount --rbind "$own/tmp" /tmp
echo ready; exec cat
"""


class Board:
    """One of them: where commands and nodes run as on another machine."""

    def __init__(self, lan: Lan, number: int, host: str, folder: Path, kept: Sequence[Path]) -> None:
        """``folder``: holds what is its own; ``kept``: folders of this machine that it has, too.

        A host name leads to 127.0.1.1, as Debian has it; one that begins with ``nameless`` leads nowhere.
        """
        self.lan, self.number, self.host = lan, number, host
        self.tmp = folder / "tmp"
        (self.tmp / "home").mkdir(parents=True)
        own = "" if host.startswith("nameless") else f"127.0.1.1 {host}\n"
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{own}")
        users = Path("/etc/passwd").read_text().splitlines()  # ssh takes nobody's word for where home is
        shell = ("/bin/bash", "/bin/sh")[number % 2]  # mpirun sends another line for each
        (folder / "passwd").write_text("\n".join([f"root:*:0:0:root:/tmp/home:{shell}", *users[1:], ""]))
        below = [str(place) for place in kept if str(place).startswith("/tmp/")]
        enter = ["ip", "netns", "exec", lan.name(number), "unshare", "-mu", "--propagation", "private"]
        argv = [*enter, "sh", "-ec", _SETUP, "sh", host, str(folder), *below]
        self._keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == "ready\n"

    @property
    def network(self) -> str:
        """What its processes see as their network."""
        return os.readlink(f"/proc/{self._keeper.pid}/ns/net")

    @property
    def environment(self) -> dict[str, str]:
        """What its processes have in their environment, whoever starts them."""
        return {"HOME": "/tmp/home", "XDG_DATA_HOME": "/tmp/home/data", "TMPDIR": "/tmp"}

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` there."""
        return ["nsenter", "-t", str(self._keeper.pid), "-n", "-m", "-u", "--wd=/tmp", "--", *argv]

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        whole = {**os.environ, **self.environment, **env}
        return subprocess.run(self.command(argv), env=whole, capture_output=True, text=True, timeout=60, check=False)

    def close(self) -> None:
        """Let go of it; it lives as long as processes on it do."""
        self._keeper.kill()
        self._keeper.communicate()


class Boards:
    """Boards, their broker, and the nodes on them. What is said of a gang is said of all boards."""

    def __init__(self, folder: Path, hosts: Sequence[str], shared: Path, *options: str) -> None:
        """Make them.

        Args:
            hosts: their host names, in the order of their numbers.
            shared: a folder that all of them mount.
            options: further ones of the broker.
        """
        self.nodes: list[Node] = []
        self._usual: dict[str, tuple[int, tuple[str, ...], dict[str, str]]] = {}
        self.shared = shared
        self._folder = folder
        self._app = folder / "app"
        (self._app / "tasks").mkdir(parents=True)
        for place, ours in (("tasks/fault.py", "fault_tasks.py"), ("fault_analyzers.py", "fault_analyzers.py")):
            (self._app / place).write_text(Path(__file__).with_name(ours).read_text())
        self.lan = Lan(INTERFACES[: len(hosts)], joined=True).build()
        (folder / "broker").mkdir()
        open_to_all = ("--bind", "127.0.0.1", self.lan.ours, "--protected-mode", "no")
        self.broker = Broker(folder / "broker", *open_to_all, *options, appendonly=True).start()
        self.url = f"redis://{self.lan.ours}:{self.broker.port}/0"
        self.client = JetQ(self.url)
        self.ledger = RedisStore(connect(self.url), "jetq")
        kept = [Path(sys.prefix), ROOT, self._app, shared]
        self.boards = {
            number: Board(self.lan, number, host, folder / f"board{number}", kept)
            for number, host in enumerate(hosts, start=1)
        }

    # Nodes ----------------------------------------------------------------------------------------------------------

    def start(self, name: str, board: int, *flags: str, **env: str) -> Node:
        """Start a node on a board, without waiting for it."""
        place = self.boards[board]
        argv = process.self_argv("worker", "--name", name, "--slots", "2", "--app-dir", str(self._app), *flags)
        log = self._folder / f"node-{len(self.nodes)}-{name}.log"
        env = {**place.environment, "JETQ_DIR": f"/tmp/home/{name}", "OMP_NUM_THREADS": "1", **env}
        node = start(place.command(argv), name=name, url=self.url, log=log, network=place.network, env=env)
        self.nodes.append(node)
        return node

    def start_all(self, *flags: str, names: str = "abcdef", **env: str) -> dict[str, Node]:
        """Start a node on each board, and return them by name once all are up."""
        self._usual = {name: (number, flags, env) for number, name in zip(self.boards, names, strict=False)}
        return self.mend()

    def mend(self) -> dict[str, Node]:
        """Plug in all boards, start a node again where there is none, and return them by name once all are up."""
        for number in self.boards:
            self.lan.plug(number)
        for name, (number, flags, env) in self._usual.items():
            if name not in self.by_name or self.by_name[name].popen.poll() is not None:
                self.start(name, number, *flags, **env)
        self.wait_up(*self._usual)
        return self.by_name

    def wait_up(self, *names: str) -> None:
        """Wait until these nodes are up."""
        states: dict[str, str] = {}

        def up() -> bool:
            states.update({row.name: row.state for row in self.ledger.nodes()})
            return all(states.get(name) == "up" and self.by_name[name].popen.poll() is None for name in names)

        wait(up, 90, f"{names} up", row=lambda: states)

    @property
    def by_name(self) -> dict[str, Node]:
        """The nodes, the last one of each name."""
        return {node.name: node for node in self.nodes}

    @property
    def leader(self) -> str:
        """The name of the node that leads."""
        held = self.ledger.client.hget(f"{self.ledger.prefix}leader", "node")
        return held.decode() if held else ""

    def occupy(self, name: str) -> Job:
        """Let a task hold all of a node, and return once it runs."""
        job = self.client.submit("fault.nap", 600, labels=[f"node={name}"], slots=2)
        self.until(job, lambda row: row.state == "RUNNING", 20, "the task's start")
        return job

    def end_all(self) -> None:
        """Let nothing of a test stand in the way of the next."""
        for row in self.ledger.jobs(200):
            if not row.ended:
                self.ledger.cancel(row.id, "its test is over")

    def state(self, name: str) -> str:
        """Return a node's state and why, "" if it is unknown."""
        return next((f"{row.state} {row.why}" for row in self.ledger.nodes() if row.name == name), "")

    # Gangs ----------------------------------------------------------------------------------------------------------

    def gang(self, *argv: str, nodes: int | str = 3, **how: Any) -> Job:
        """Send a gang of mpirun (it starts faster than torchrun), unless told otherwise."""
        how.setdefault("launcher", "mpirun")
        return self.client.gang(argv, nodes=nodes, as_root=how["launcher"] == "mpirun", **how)

    def until(self, job: Job, condition: Callable[[JobRow], object], within_s: float = 40.0, what: str = "") -> JobRow:
        """Return a job's row once it is as it should be."""
        return wait(lambda: (row := job.row()) if condition(job.row()) else None, within_s, what, row=job.row)

    def lines(self, job: Job) -> list[str]:
        """Return what its ranks have written so far, as the live copy has it."""
        return [f"{line.rank}: {line.text}" for line in self.ledger.gang_lines(job.id, "", 4000)[1]]

    def say(self, job: Job, text: str, times: int, within_s: float = 60.0) -> None:
        """Wait until so many lines with that text were written by its ranks."""
        wait(
            lambda: sum(text in line for line in self.lines(job)) >= times,
            within_s,
            f"{times} times {text!r}",
            row=lambda: (job.row(), self.lines(job)),
        )

    def left_of(self, job: Job) -> dict[str, Any]:
        """Return what is left of a gang: processes on any board, leases, private folders; {} where nothing is."""
        found = {
            "processes": carriers(job.id),
            "leases": [held for held in self.leases() if held.startswith(job.id)],
            "folders": self.folders(job),
            "ports": self.ports(job),
        }
        return {what: value for what, value in found.items() if value}

    def wait_nothing_left(self, job: Job, within_s: float = 15.0) -> None:
        """Wait until nothing of a gang is left on any board."""
        wait(lambda: not self.left_of(job), within_s, f"nothing is left of {job.id}", row=lambda: self.left_of(job))

    def leases(self) -> list[str]:
        """Return the ids of all jobs that hold something, on whatever node."""
        keys = self.ledger.client.scan_iter(match=f"{self.ledger.prefix}leases:*", count=1000)
        return [
            held.decode() if isinstance(held, bytes) else held for key in keys for held in self.ledger.client.hkeys(key)
        ]

    def ports(self, job: Job) -> list[int]:
        """Return the ports that members of a gang hold: those of a member that has ended are free."""
        client, prefix = self.ledger.client, self.ledger.prefix
        held = [
            entry
            for key in client.scan_iter(match=f"{prefix}ports:*", count=1000)
            for entry in client.hgetall(key).items()
        ]
        return [
            int(port)
            for port, holder in held
            if holder.decode().startswith(job.id)
            and client.hget(f"{prefix}job:{holder.decode()}", "state") in (b"ASSIGNED", b"RUNNING")
        ]

    def folders(self, job: Job) -> list[Path]:
        """Return the private folders that members of a gang have left."""
        members = [path for board in self.boards.values() for path in board.tmp.glob(f"home/**/{job.id[:40]}.*")]
        return members + [path for board in self.boards.values() for path in board.tmp.glob("jetq-*")]

    # The end --------------------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Leave nothing of them."""
        for node in self.nodes:
            node.clear()
        for board in self.boards.values():
            board.close()
        self.lan.remove()
        self.broker.kill()


@contextmanager
def boards(folder: Path, hosts: Sequence[str], *options: str) -> Iterator[Boards]:
    """Give boards of these host names. ``options``: further ones of their broker."""
    shared = folder / "shared"
    shared.mkdir()
    made = Boards(folder, hosts, shared, *options)
    try:
        yield made
    finally:
        made.remove()


def carriers(job_id: str) -> dict[int, str]:
    """Return all processes that carry a gang's id: pid -> command line."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            carried = (place / "environ").read_bytes().split(b"\0")
            if any(
                part.startswith((f"JETQ_JOB_ID={job_id}".encode(), f"JETQ_MEMBER={job_id}.".encode()))
                for part in carried
            ):
                found[int(place.name)] = (place / "cmdline").read_bytes().decode().replace("\0", " ")
    return found


def wait(condition: Callable[[], Any], within_s: float, what: str, *, row: Callable[[], object] | None = None) -> Any:
    """Return the first true answer, or fail after the deadline."""
    end_s = time.monotonic() + within_s
    pause = threading.Event()
    while not (answer := condition()):
        if time.monotonic() >= end_s:
            pytest.fail(f"{what} did not come true within {within_s:g} s; at last: {row() if row else answer!r}")
        pause.wait(0.05)
    return answer


def told(row) -> str:
    """Return why a gang's attempts have ended."""
    return " | ".join(entry["why"] for entry in row.history)
