"""`jetq up` and `jetq down` for real: one command starts everything, and nothing is ever left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jetq.store.redis import RedisStore, connect

ROOT = Path(__file__).resolve().parents[2]
JETQ = [sys.executable, str(ROOT / "jetq" / "_run.py")]
pytestmark = pytest.mark.xdist_group("up")


class Machine:
    """A folder for one `jetq up`, and everything that was started with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "JETQ_DIR": str(folder), "JETQ_GRACE_S": "5"}

    def jetq(self, *words: str, code: int = 0) -> str:
        """Run a verb to its end; return what it printed, stderr when it was to fail."""
        found = subprocess.run([*JETQ, *words], env=self.env, capture_output=True, text=True, timeout=150)
        assert found.returncode == code, found.stdout + found.stderr + self.logs()
        return found.stderr if code else found.stdout

    def up(self, *words: str) -> dict:
        return json.loads(self.jetq("up", "-d", "--json", *words))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a verb that stays."""
        argv = [*JETQ, *words]
        return subprocess.Popen(argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def nodes(self) -> dict[str, dict]:
        return {row["name"]: row for row in json.loads(self.jetq("node", "list", "--json"))}

    def state(self) -> dict:
        return json.loads((self.folder / "up.json").read_text())

    def logs(self) -> str:
        return "".join(f"\n== {log.name}\n{log.read_text()[-3000:]}" for log in self.folder.glob("logs/*.log"))

    def processes(self) -> dict[int, str]:
        """All processes that name the folder in their environment or command line, but for the tests' own."""
        found = {}
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (place / "cmdline").read_bytes()
                told = words + (place / "environ").read_bytes()
                if place.name.isdigit() and str(self.folder).encode() in told and int(place.name) != os.getpid():
                    found[int(place.name)] = words.replace(b"\0", b" ").decode()
        return {pid: words for pid, words in found.items() if words}


def page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.status == 200
        return answer.read()


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path / "up")
    yield machine
    for pid in machine.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_one_command_starts_all_and_down_leaves_nothing(machine, wait_until):
    facts = machine.up("--nodes", "2", "--slots", "2,1")
    nodes = machine.nodes()
    result = machine.jetq("submit", "demo.nap", "0.01", "--wait")
    flower_shows_queues = wait_until(lambda: b"node.node-2" in page(facts["flower"] + "broker"), within_s=30)
    second = machine.jetq("up", code=1)
    machine.jetq("down")

    assert {name: (row["state"], row["slots"]) for name, row in nodes.items()} == {
        "node-1": ("up", 2),
        "node-2": ("up", 1),
    }
    assert facts["nodes"] == ["node-1", "node-2"]
    assert result == "0.01\n"
    assert flower_shows_queues
    assert f"already runs in {machine.folder} (pid {facts['pid']}" in second
    assert machine.processes() == {}
    assert not (machine.folder / "up.json").exists()


def test_a_killed_up_leaves_no_process_and_loses_no_job(machine, wait_until):
    facts = machine.up("--no-web", "--slots", "1")
    machine.jetq("submit", "demo.nap", "0.01", "--id", "later", "--countdown", "4")
    machine.jetq("submit", "demo.nap", "0.01", "--id", "pinned", "--label", "zone=yard", "--wait-for-node")
    os.kill(facts["pid"], signal.SIGKILL)
    wait_until(lambda: not machine.processes(), within_s=20, what="the end of every process")

    again = machine.up("--no-web", "--slots", "1")
    machine.jetq("job", "wait", "later", "--timeout", "60")
    rows = {row["id"]: row["state"] for row in json.loads(machine.jetq("job", "list", "--json"))}
    machine.jetq("down")

    assert again["broker"] == facts["broker"]
    assert rows == {"later": "SUCCEEDED", "pinned": "QUEUED"}
    assert machine.processes() == {}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_in_the_foreground(machine, wait_until, signum):
    up = machine.start("up", "--no-web", "--slots", "1")
    wait_until(lambda: (machine.folder / "up.json").exists() and machine.state()["ready"], within_s=90)

    up.send_signal(signum)
    out, err = up.communicate(timeout=60)

    assert up.returncode == 0, err
    assert "broker" in out
    assert machine.processes() == {}


def test_a_stop_while_it_starts_leaves_nothing(machine, wait_until):
    up = machine.start("up", "-d", "--nodes", "2", "--no-web")
    wait_until((machine.folder / "up.json").exists, within_s=60)

    up.send_signal(signal.SIGINT)
    up.communicate(timeout=60)

    assert up.returncode == 130
    wait_until(lambda: not machine.processes(), within_s=20, what="the end of every process")


def test_down_now_kills_what_runs_and_the_job_runs_again_later(machine, wait_until):
    machine.up("--no-web", "--slots", "1")
    machine.jetq("submit", "demo.nap", "60", "--id", "long")
    wait_until(lambda: json.loads(machine.jetq("job", "show", "long", "--json"))["state"] == "RUNNING", within_s=30)

    machine.jetq("down", "--now")
    left = machine.processes()
    machine.up("--no-web", "--slots", "1")
    again = json.loads(machine.jetq("job", "show", "long", "--json"))
    machine.jetq("job", "cancel", "long")
    machine.jetq("down", "--now")

    assert left == {}
    assert again["state"] in ("QUEUED", "ASSIGNED", "RUNNING")


def test_what_dies_is_started_again(machine, wait_until):
    machine.up("--no-web", "--slots", "1")
    state, epoch = machine.state(), machine.nodes()["node-1"]["epoch"]
    os.kill(state["nodes"]["node-1"], signal.SIGKILL)
    os.kill(state["server_pid"], signal.SIGKILL)

    def is_back():
        node = machine.nodes().get("node-1", {})
        return node.get("state") == "up" and node.get("epoch") != epoch

    wait_until(lambda: machine.state()["server_pid"] != state["server_pid"], within_s=30)
    wait_until(is_back, within_s=60, what="the node's new run")
    result = machine.jetq("submit", "demo.nap", "0.01", "--wait")
    machine.jetq("down")

    assert result == "0.01\n"
    assert machine.processes() == {}


def test_a_printed_line_joins_another_node(machine, wait_until):
    with socket.create_server(("127.0.0.2", 0)) as probe:
        port = probe.getsockname()[1]
    facts = machine.up("--no-web", "--slots", "1", "--listen", f"127.0.0.2:{port}")
    line = shlex.split(facts["join"])
    worker = machine.start(*line[1:], "--name", "board-2", "--slots", "1")
    wait_until(lambda: machine.nodes().get("board-2", {}).get("state") == "up", within_s=90)
    result = machine.jetq("submit", "demo.nap", "0.01", "--label", "node=board-2", "--wait")
    ledger = RedisStore(connect(machine.state()["url"]), "jetq")
    served_at = [urlsplit(json.loads(ledger.door(name))["url"]).hostname for name in ("node-1", "board-2")]
    open_door = machine.jetq("node", "list", "--broker", f"redis://127.0.0.2:{port}", code=2)
    worker.terminate()
    worker.communicate(timeout=60)
    machine.jetq("down")

    password = (machine.folder / "password").read_text()
    assert line[:2] == ["jetq", "worker"]
    assert password in facts["join"]
    assert line[-2:] == ["--http", "auto"]
    assert served_at[0] == "127.0.0.2"
    assert served_at[1].startswith("127.")
    assert password not in facts["broker"]
    assert result == "0.01\n"
    assert "refuses the password" in open_door
    assert machine.processes() == {}
    assert password not in machine.logs()


def test_the_tasks_of_a_user_run_beside_the_built_in_ones(machine, tmp_path):
    machine.jetq("init", str(tmp_path / "yard"))
    machine.up("--no-web", "--slots", "1", "--app-dir", str(tmp_path / "yard"))
    result = machine.jetq("submit", "yard.count", "70", "camera=3", "--wait")
    machine.jetq("down")

    assert json.loads(result) == {"camera": 3, "seen": 10}


def test_a_task_module_that_raises_is_one_clear_line_and_nothing_is_left(machine, tmp_path):
    (tmp_path / "yard" / "tasks").mkdir(parents=True)
    (tmp_path / "yard" / "tasks" / "broken.py").write_text("1 / 0\n")

    said = machine.jetq("up", "-d", "--no-web", "--app-dir", str(tmp_path / "yard"), code=2)

    last = said.splitlines()[-1]
    assert last.startswith("jetq: node-1: ")
    assert "broken" in last
    assert "ZeroDivisionError" in last
    assert machine.processes() == {}


def test_nodes_may_join_a_broker_that_is_there(machine, start_broker):
    server = start_broker()

    facts = machine.up("--no-web", "--slots", "1", "--broker", server.url)
    nodes = json.loads(machine.jetq("node", "list", "--json", "--broker", server.url))
    machine.jetq("down")

    assert facts["broker"] == server.url
    assert [row["name"] for row in nodes] == ["node-1"]
    assert server.client().ping()
    assert machine.processes() == {}
