"""Logs and files of a board of its own: another network, host name and disk, which is small and runs full."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import JetQ, process
from jetq.errors import FilesAway
from jetq.service.facts import mark_key

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("boards")
#: Runs a command on a board: its host name, and a disk of half a megabyte in place of its home.
ON_BOARD = 'hostname "$0" && mount -t tmpfs -o size=512k tmpfs "$1" && shift && exec "$@"'
TASKS = '''
import socket
from celery import shared_task
from jetq import files_dir

@shared_task(name="board.prints")
def print_lines(lines):
    """Print more than the disk takes."""
    for number in range(lines):
        print("line", number, "." * 80)
    return lines

@shared_task(name="board.works")
def work(lines):
    """Print on a board, and leave a file there."""
    print("on", socket.gethostname())
    for number in range(lines):
        print("line", number, "." * 80)
    (files_dir() / "where.txt").write_text(socket.gethostname())
    return lines
'''


class Board:
    """A network namespace with a cable to ours, and the nodes on it."""

    def __init__(self, folder: Path) -> None:
        number = os.getpid() % 16384
        third, fourth = divmod(number, 64)
        self.name = f"jetq-b{number}"
        self.ours, self.its = (f"10.78.{third}.{fourth * 4 + n}" for n in (1, 2))
        self._near, self._far = f"jqb{number}", f"jqc{number}"
        self._folder = folder
        self._started: list[tuple[subprocess.Popen[bytes], str]] = []

    def build(self) -> Board:
        ip("netns", "add", self.name)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        ip("address", "add", f"{self.ours}/30", "dev", self._near)
        ip("link", "set", self._near, "up")
        for words in (("address", "add", f"{self.its}/30", "dev", self._far), ("link", "set", self._far, "up")):
            ip("-n", self.name, *words)
        ip("-n", self.name, "link", "set", "lo", "up")
        return self

    def start(self, name: str, url: str, app_dir: Path, *flags: str) -> None:
        home = self._folder / name
        home.mkdir()
        worker = process.self_argv("worker", "--name", name, "--slots", "1", "--app-dir", str(app_dir), *flags)
        argv = ["ip", "netns", "exec", self.name, "unshare", "-m", "-u", "sh", "-c", ON_BOARD, f"host-of-{name}"]
        env = {**os.environ, "JETQ_BROKER_URL": url, "JETQ_DIR": str(home)}
        with self.log(name).open("wb") as out:
            popen = subprocess.Popen([*argv, str(home), *worker], env=env, stdout=out, stderr=out)
        network = f"net:[{os.stat(f'/run/netns/{self.name}').st_ino}]"
        self._started.append((popen, mark_key(url, "jetq", name, network)))

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def remove(self) -> None:
        for popen, key in self._started:
            popen.kill()
            popen.wait(10)
            process.sweep(key)
        for words in (("link", "delete", self._near), ("netns", "delete", self.name)):
            subprocess.run(["ip", *words], stderr=subprocess.DEVNULL, check=False)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    made = Board(tmp_path)
    made.remove()  # of a run that was killed
    yield made.build()
    made.remove()


@pytest.fixture
def cluster(board: Board, start_broker, app_dir: Path, wait_until) -> JetQ:
    """Give a cluster of two nodes on the board: ``near`` serves its files to the network, ``shy`` does not."""
    (app_dir / "tasks" / "board.py").write_text(TASKS)
    server = start_broker("--bind", "127.0.0.1", board.ours, "--protected-mode", "no")
    client = JetQ(server.url)
    board.start("near", f"redis://{board.ours}:{server.port}/0", app_dir, "--http", "auto")
    board.start("shy", f"redis://{board.ours}:{server.port}/0", app_dir)
    wait_until(lambda: [row.state for row in client.nodes()] == ["up", "up"], within_s=90, what="both nodes up")
    return client


@pytest.fixture
def jetq(cluster: JetQ) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Give ``jetq(*words)``: a verb on this machine."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "JETQ_BROKER_URL": str(cluster.settings.broker_url)}
        argv = [sys.executable, "-m", "jetq", *words]
        return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_a_board_is_read_from_here(cluster, jetq, tmp_path):
    job = cluster.submit("board.works", 3, labels=["node=near"])
    shy = cluster.submit("board.works", 1, labels=["node=shy"])
    for one in (job, shy):
        assert one.wait(60).state == "SUCCEEDED"

    said = jetq("job", "logs", job.id)
    got = jetq("job", "files", job.id, "--get", str(tmp_path / "out"))
    refused = jetq("job", "logs", shy.id)
    with pytest.raises(FilesAway, match="--http auto"):
        shy.files()

    assert said.stdout.splitlines() == ["on host-of-near", *(f"line {number} {'.' * 80}" for number in range(3))]
    assert (got.returncode, got.stdout.strip()) == (0, str(tmp_path / "out" / "where.txt"))
    assert (tmp_path / "out" / "where.txt").read_text() == "host-of-near"
    assert list((tmp_path / "near").iterdir()) == []  # its disk is not ours
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        "jetq: node shy serves its files on its own machine only: "
        "start it with --http auto (JETQ_HTTP=auto), or ask there"
    ]


def test_a_board_is_one_line_of_the_hostfile(cluster, board, jetq):
    said = jetq("hostfile")

    assert (said.returncode, said.stdout) == (0, f"{board.its} slots=2  # near shy\n"), said.stderr


def test_a_full_disk_fails_no_job_that_prints(cluster, board, jetq):
    loud = cluster.submit("board.prints", 20_000, labels=["node=near"])

    row = loud.wait(60)

    said = jetq("job", "logs", loud.id)
    log = board.log("near").read_text()
    assert (row.state, row.result) == ("SUCCEEDED", 20_000)
    assert said.stdout.splitlines()[0] == f"line 0 {'.' * 80}"
    assert 1000 < len(said.stdout.splitlines()) < 10_000
    assert f"line 19999 {'.' * 80}" in log
    assert log.count("output.lost") == 1
    assert "No space left on device" in log
