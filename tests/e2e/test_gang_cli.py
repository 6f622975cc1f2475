"""`jetq gang` and `JetQ.gang` against a real cluster: two nodes on this machine, real mpirun and torchrun."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import JetQ, wire
from jetq.config import Settings
from jetq.errors import JobFailed

ROOT = Path(__file__).resolve().parents[2]
JETQ = [sys.executable, str(ROOT / "jetq" / "_run.py")]
pytestmark = pytest.mark.xdist_group("gang-cli")
MPI = ("gang", "--launcher", "mpirun", "--as-root", "--nodes", "2")


class Cluster:
    """What `jetq up` started in a folder."""

    def __init__(self, folder: Path) -> None:
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("JETQ_")}
        self.env |= {"JETQ_DIR": str(folder), "JETQ_GRACE_S": "5"}
        self.url = json.loads(self.jetq("up", "-d", "--nodes", "2", "--slots", "4", "--json").stdout)["broker"]

    def jetq(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end."""
        found = subprocess.run([*JETQ, *words], env=self.env, capture_output=True, text=True, timeout=120)
        assert code in (None, found.returncode), found
        return found

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a verb."""
        argv = [*JETQ, *words]
        return subprocess.Popen(argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def row(self, job_id: str) -> dict:
        return dict(json.loads(self.jetq("job", "show", job_id, "--json").stdout))


def carriers(job_id: str) -> list[str]:
    """Return the command lines of all processes that carry a job's id."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"JETQ_JOB_ID={job_id}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append((place / "cmdline").read_bytes().decode())
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("gangs") / "up")
    yield cluster
    cluster.jetq("down", code=None)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """Give ``script(text) -> words``: a workdir with a script, and the words that send and run it."""

    def write(text: str) -> tuple[str, ...]:
        (tmp_path / "run.py").write_text(f"import os\nfrom time import sleep\nrank = int(os.environ['RANK'])\n{text}")
        return "--workdir", str(tmp_path), "--", "python", "-u", "run.py"

    return write


def test_ranks_run_on_all_nodes_and_their_lines_say_which_wrote_them(cluster, script):
    words = script("print('of', os.environ['WORLD_SIZE'], os.environ['WHO'], os.path.exists('run.py'))")

    shown = cluster.jetq(*MPI, "--ranks", "2", "--env", "WHO=a b", "--id", "hello", *words)
    logs = cluster.jetq("job", "logs", "hello").stdout

    expected = [f"[{rank}] of 4 a b True" for rank in range(4)]
    assert sorted(shown.stdout.splitlines()) == expected
    assert sorted(line for line in logs.splitlines() if not line.startswith("[jetq]")) == expected
    assert cluster.jetq("job", "logs", "hello", "--rank", "3").stdout == "[3] of 4 a b True\n"
    assert "jetq: runs on " in shown.stderr
    row = cluster.row("hello")
    assert (row["kind"], row["state"], row["exit_code"], sorted(row["nodes"])) == (
        "gang",
        "SUCCEEDED",
        0,
        ["node-1", "node-2"],
    )


def test_torchrun_runs_the_same_command(cluster, script):
    words = script("print('rank', rank, 'of', os.environ['WORLD_SIZE'])")

    shown = cluster.jetq("gang", "--nodes", "2", *words)

    # torchrun tells a story of its own at times: where that of the head ends first, the other misses it.
    said = [line for line in shown.stdout.splitlines() if not line.startswith("[jetq]")]
    assert sorted(said) == ["[0] rank 0 of 2", "[1] rank 1 of 2"]


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_a_failed_gang_ends_with_the_code_and_the_last_words_of_the_rank_that_failed(cluster, script, launcher):
    words = script("import sys\nif rank == 1:\n    print('no data', file=sys.stderr)\n    sys.exit(7)\nsleep(60)\n")

    how = ("--nodes", "2", "--launcher", launcher, "--as-root", "--id", f"bad-{launcher}")
    failed = cluster.jetq("gang", *how, *words, code=7)

    assert "jetq: the gang failed: rank 1 on node-" in failed.stderr
    assert "exited with code 7" in failed.stderr
    assert "jetq: the last lines of the rank that failed first:\n    no data\n" in failed.stderr
    assert "Traceback" not in failed.stdout
    logs = cluster.jetq("job", "logs", f"bad-{launcher}").stdout
    assert "[1] no data" in logs
    assert ("Traceback" in logs) == (launcher == "torchrun"), "the launcher's own story is in the file"


def test_a_command_that_no_node_has_is_a_refusal(cluster):
    refused = cluster.jetq(*MPI, "--", "no-such-program", code=64)

    assert "no-such-program is not installed" in refused.stderr
    assert refused.stdout == ""


def test_a_time_limit_is_exit_124_and_leaves_no_process(cluster, script):
    words = script("print('begins')\nsleep(300)\n")

    late = cluster.jetq(*MPI, "--time-limit", "1.5", "--id", "late", *words, code=124)

    assert "jetq: the gang failed: the gang ran longer than its time limit of 1.5 s (exit code 124); " in late.stderr
    assert cluster.row("late")["exit_code"] == 124
    assert carriers("late") == []


def test_ranks_of_one_machine_share_its_cores_unless_somebody_says_otherwise(cluster, script):
    words = script("print(os.environ['OMP_NUM_THREADS'])")

    shared = cluster.jetq(*MPI, *words).stdout.splitlines()
    asked = cluster.jetq(*MPI, "--env", "OMP_NUM_THREADS=7", *words).stdout.splitlines()

    assert [line[4:] for line in shared] == [str(max(1, len(os.sched_getaffinity(0)) // 2))] * 2
    assert [line[4:] for line in asked] == ["7"] * 2


def test_what_is_kept_is_said_with_its_place(cluster, script):
    words = script("open(f'made-{rank}', 'w').close()")

    kept = cluster.jetq(*MPI, "--keep", *words).stdout

    places = re.findall(r"^\[jetq\] node (node-\d) keeps its folder: (/.*)$", kept, re.MULTILINE)
    assert sorted(node for node, _ in places) == ["node-1", "node-2"]
    assert sorted(made.name for _, place in places for made in Path(place, "work").glob("made-*")) == [
        "made-0",
        "made-1",
    ]


def test_ctrl_c_leaves_no_process(cluster, script, wait_until):
    words = script("print('begins')\nsleep(300)\n")
    verb = cluster.start(*MPI, "--id", "interrupted", *words)
    assert verb.stdout is not None
    assert "begins" in verb.stdout.readline()
    verb.send_signal(signal.SIGINT)
    _, err = verb.communicate(timeout=60)

    assert verb.returncode == 130
    assert "it has ended: CANCELLED" in err
    assert (cluster.row("interrupted")["state"], cluster.row("interrupted")["reason"]) == (
        "CANCELLED",
        "cancelled by Ctrl-C",
    )
    assert carriers("interrupted") == []


def test_what_somebody_else_cancels_is_exit_143(cluster, script):
    words = script("print('begins')\nsleep(300)\n")
    verb = cluster.start(*MPI, "--id", "elsewhere", *words)
    assert verb.stdout is not None
    assert "begins" in verb.stdout.readline()
    cluster.jetq("job", "cancel", "elsewhere", "--reason", "wrong data")
    _, err = verb.communicate(timeout=60)

    assert verb.returncode == 143
    assert "jetq: the gang was cancelled: wrong data" in err


def test_progress_is_told_while_it_runs(cluster, script, wait_until, tmp_path):
    go = tmp_path.parent / f"{tmp_path.name}.go"
    words = script(
        "from jetq import training\n"
        "training.progress(3, 10, loss=0.25)\n"
        f"while not os.path.exists({str(go)!r}):\n    sleep(0.1)\n"
    )
    cluster.jetq(*MPI, "--detach", "--id", "steps", *words)
    wait_until(lambda: cluster.row("steps")["progress"], 30, "the progress")

    assert "progress   step 3 of 10, loss 0.25" in cluster.jetq("job", "show", "steps").stdout
    go.touch()
    assert cluster.jetq("job", "wait", "steps", "--timeout", "60").returncode == 0


def test_logs_of_a_gang_that_runs_are_followed(cluster, script, tmp_path):
    go = tmp_path.parent / f"{tmp_path.name}.go"
    words = script(
        f"print('before', rank)\nwhile not os.path.exists({str(go)!r}):\n    sleep(0.1)\nprint('after', rank)\n"
    )
    cluster.jetq(*MPI, "--detach", "--id", "followed", *words)
    verb = cluster.start("job", "logs", "-f", "followed", "--rank", "1")
    assert verb.stdout is not None
    assert verb.stdout.readline() == "[1] before 1\n"
    go.touch()

    out, _ = verb.communicate(timeout=60)
    assert (verb.returncode, out) == (0, "[1] after 1\n")


def test_a_dry_run_shows_what_then_runs(cluster, script):
    words = script("pass")

    plan = json.loads(cluster.jetq(*MPI, "--dry-run", "--json", *words).stdout)

    assert (sorted(plan["nodes"]), plan["starts_now"]) == (["node-1", "node-2"], True)
    head = plan["members"][0]
    assert head["argv"][:3] == ["mpirun", "-np", "2"]
    assert next(iter(head["files"].values())).startswith("127.0.0.1 slots=2")


def test_monitors_see_members_with_their_gang(cluster, wait_until):
    app = wire.create_app(Settings(broker_url=cluster.url), cluster.url, current=False)
    seen: list[dict] = []
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": seen.append})
        listener = threading.Thread(target=receiver.capture, kwargs={"timeout": 60, "wakeup": False})
        listener.start()
        wait_until(lambda: seen, 30, "the first heartbeat")
        app.control.enable_events(reply=True, timeout=5)
        cluster.jetq(*MPI, "--name", "shown", "--id", "seen", "--", "hostname")
        wait_until(lambda: sum(event["type"] == "task-succeeded" for event in seen) == 2, 30, "the members' ends")
        receiver.should_stop = True
        listener.join(30)

    begun = {event["uuid"]: event for event in seen if event["type"] == "task-received"}
    assert sorted(begun) == ["seen.1.0", "seen.1.1"]
    for event in begun.values():
        assert (event["name"], event["kwargs"]) == ("gang.member", "{'gang': 'shown', 'command': 'hostname'}")


def test_python_sends_and_waits(cluster, script, tmp_path):
    script("print('rank', rank)\nraise SystemExit(rank)\n")
    how = {"nodes": 2, "launcher": "mpirun", "as_root": True}
    client = JetQ(cluster.url)

    good = client.gang(["hostname"], **how)
    bad = client.gang(["python", "run.py"], workdir=tmp_path, **how)

    assert good.wait(60).exit_code == 0
    assert [*good.logs(follow=True)]
    with pytest.raises(JobFailed, match=r"rank 1 on node-\d exited with code 1"):
        bad.result(60)
    assert "rank 1" in bad.row().tail
