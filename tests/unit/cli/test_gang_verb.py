"""`jetq gang` on a ledger whose records the test moves: what is shown of a gang, and how the verb ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from jetq import JetQ
from jetq.model.job import JobRow
from jetq.service import following

GANG = ("gang", "--id", "mine", "--nodes", "2")
SIGNALS = pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


class Stage:
    """Moves one gang as leader and members would."""

    def __init__(self, yard, wait_until) -> None:
        self.store = yard.store
        self.key = f"{self.store.prefix}job:mine"
        self._wait_until = wait_until

    def row(self) -> JobRow | None:
        return self.store.job("mine")

    def sent(self) -> None:
        self._wait_until(self.row, what="the gang in the ledger")

    def set(self, state: str, **fields: object) -> None:
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in fields.items()}
        self.store.client.hset(self.key, mapping={"state": state, **texts})

    def runs(self) -> None:
        self.sent()
        self.set("RUNNING", nodes="a b", started_at="100")

    def write(self, *lines: tuple[int | None, str], progress: str = "") -> None:
        self.store.tell_lines("mine", "a", lines, progress)


@pytest.fixture
def stage(yard, wait_until) -> Stage:
    """Give a cluster of two nodes that can run gangs, and what moves the gang ``mine``."""
    for name in "ab":
        yard.node(name, tasks=("gang.member",))
    return Stage(yard, wait_until)


@pytest.fixture
def played(jetq) -> Callable[..., tuple[int, str, str]]:
    """Give ``played(play, word...)``: the verb's answer, while ``play`` runs beside it."""

    def run(play: Callable[[], None], *words: str) -> tuple[int, str, str]:
        beside = threading.Thread(target=play)
        beside.start()
        answer = jetq(*words)
        beside.join(20)
        return answer

    return run


def test_an_attached_gang_shows_its_ranks_and_ends_as_they_do(stage, played):
    def play() -> None:
        stage.runs()
        stage.write((0, "loss 2.0"), (1, "loss 2.1"), (None, "rank 1 was slow"))
        stage.set("SUCCEEDED", result={"code": 0})

    code, out, err = played(play, *GANG, "--", "hostname")

    assert (code, out) == (0, "[0] loss 2.0\n[1] loss 2.1\n[jetq] rank 1 was slow\n")
    assert err.splitlines()[0] == "jetq: job mine"


def test_the_end_of_a_failed_gang_is_its_root_cause_and_the_last_lines(stage, played):
    def play() -> None:
        stage.runs()
        stage.write((1, "boom"))
        stage.set("FAILED", error="rank 1 on b exited with code 3", exit_code=3, tail=["Traceback", "boom"])

    code, out, err = played(play, *GANG, "--", "hostname")

    assert (code, out) == (3, "[1] boom\n")
    assert "jetq: the gang failed: rank 1 on b exited with code 3\n" in err
    assert "    Traceback\n    boom\n" in err
    assert "jetq job logs mine" in err


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        ("FAILED", {"error": "node b was lost", "started_at": 100}, 1),
        (
            "FAILED",
            {"error": "no Open MPI", "history": [{"what": "ran", "node": "b", "why": "was lost", "ran": True}]},
            1,
        ),
        ("FAILED", {"error": "node b has no Open MPI", "exit_code": 1}, 64),
        ("FAILED", {"error": "killed", "exit_code": -9, "started_at": 100}, 137),
        ("FAILED", {"error": "the gang ran longer than 5 s", "exit_code": 124, "started_at": 100}, 124),
        ("CANCELLED", {"reason": "wrong data"}, 143),
    ],
)
def test_every_end_has_its_exit_code(stage, played, state, fields, expected):
    def play() -> None:
        stage.sent()
        stage.set(state, **fields)

    code, _, err = played(play, *GANG, "--", "hostname")

    assert code == expected
    assert next(iter(fields.values())) in err


def test_a_gang_that_the_broker_lost_is_no_refusal(stage, played):
    def play() -> None:
        stage.runs()
        stage.store.client.delete(stage.key)

    code, _, err = played(play, *GANG, "--", "true")

    assert code == 1
    assert "the broker was emptied, or lost its last writes" in err
    assert "send it again" in err


def test_whoever_reads_late_is_told_what_was_missed_and_where_it_is(stage, jetq):
    assert jetq(*GANG, "--detach", "--", "hostname")[:2] == (0, "mine\n")
    stage.write(*((0, str(number)) for number in range(1, 9001)))
    stage.set("SUCCEEDED", result={"code": 0}, nodes="a b")

    code, out, err = jetq(*GANG, "--", "hostname")

    shown = out.splitlines()
    assert (code, shown[-1]) == (0, "[0] 9000")
    assert f"jetq: {9000 - len(shown)} lines came too fast to be shown; all are in: jetq job logs mine" in err
    assert "was there already, nothing was sent" in err


def test_missed_lines_are_told_of_now_and_then(monkeypatch):
    missed = following.Missed()

    assert [missed.told(more, at_end=False) for more in (0, 7, 5, 4)] == [0, 7, 0, 0]
    assert missed.told(1, at_end=True) == 10
    monkeypatch.setattr(following, "MISSED_EVERY_S", 0.0)
    assert [missed.told(more, at_end=False) for more in (3, 0, 2)] == [3, 0, 2]


def test_json_is_an_object_for_each_line_and_then_the_job(stage, played):
    def play() -> None:
        stage.runs()
        stage.write((1, "one"))
        stage.set("SUCCEEDED", result={"code": 0})

    _, out, _ = played(play, *GANG, "--json", "--", "hostname")

    line, row = (json.loads(text) for text in out.splitlines())
    assert (line["rank"], line["node"], line["line"]) == (1, "a", "one")
    assert (row["id"], row["kind"], row["state"], row["exit_code"]) == ("mine", "gang", "SUCCEEDED", 0)


def test_detached_prints_the_id_alone(stage, jetq):
    assert jetq(*GANG, "--detach", "--", "hostname") == (0, "mine\n", "QUEUED; ask with `jetq job show mine`\n")
    row = json.loads(jetq(*GANG, "--detach", "--json", "--", "hostname")[1])
    assert (row["id"], row["state"]) == ("mine", "QUEUED")
    assert "it was there already, nothing was sent: QUEUED" in jetq(*GANG, "--detach", "--", "hostname")[2]


def test_options_of_the_command_are_its_own_also_without_dashes(stage, jetq):
    jetq(*GANG, "--detach", "--env", "A=1", "ls", "--nodes", "7")

    (gang,) = stage.store.gangs()
    assert (gang.spec.argv, dict(gang.spec.env), gang.spec.min_nodes) == (("ls", "--nodes", "7"), {"A": "1"}, 2)


def test_a_dry_run_prints_the_plan_and_sends_nothing(stage, jetq, tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    words = ("gang", "--nodes", "2", "--workdir", str(tmp_path), "--dry-run")

    code, out, err = jetq(*words, "--env", "A=b c", "--", "python", "train.py")
    plan = json.loads(jetq(*words, "--json", "--", "python", "train.py")[1])

    assert (code, err) == (0, "")
    assert "train.py: 2 ranks on a, b\nit would start now\nworkdir: 1 file, 1 KiB packed" in out
    assert "\nmember 1 on b (10.0.0.1), ranks 1\n" in out
    assert "  A='b c'\n" in out
    assert "--node-rank 1 --rdzv-backend static --rdzv-endpoint 10.0.0.1:29500" in out
    assert "note: interfaces, networks and folders are found on each node when it starts" in out
    assert (plan["nodes"], plan["starts_now"], len(plan["members"])) == (["a", "b"], True, 2)
    assert stage.store.jobs() == []
    assert stage.store.client.keys("*blob*") == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["gang"], "a gang needs a command; write it after --"),
        (["gang", "--nodes", "4:2", "--", "hostname"], "nodes 4:2: the least is more than the most"),
        (["gang", "--nodes", "3", "--", "hostname"], "the gang needs 3 nodes with 1 slot each, and only a, b have"),
        (["gang", "--ranks", "x", "--", "hostname"], "'x' is not a valid integer. (see `jetq gang --help`)"),
        (["gang", "--rank", "2", "--", "hostname"], "No such option"),
        (["gang", "--mem", "much", "--", "hostname"], "'much' is no size"),
        (["gang", "--workdir", "/no/such", "--", "hostname"], "the workdir /no/such is no folder"),
        (["gang", "--", "python", "train.py"], "train.py will not be there"),
        (["gang", "--id", "a b", "--", "hostname"], "'a b' is no job id"),
        (["gang", "--env", "X", "--", "hostname"], "--env X: write NAME=VALUE"),
        (["gang", "--launcher", "srun", "--", "hostname"], "launcher must be torchrun or mpirun"),
        (["gang", "--priority", "high", "--", "hostname"], "priority must be one of urgent, normal, low"),
        (["gang", "--gpu", "--", "hostname"], "with 1 slot and a GPU each, and no node has that"),
    ],
)
def test_what_jetq_refuses_is_one_line_and_exit_64(stage, jetq, words, complaint):
    code, out, err = jetq(*words)

    assert (code, out, err.count("\n")) == (64, "", 1)
    assert complaint in err
    assert stage.store.jobs() == []


def test_an_id_in_use_by_other_work_is_refused(stage, jetq):
    jetq(*GANG, "--detach", "--", "hostname")

    code, _, err = jetq(*GANG, "--", "uptime")

    assert (code, err.count("\n")) == (64, 1)
    assert "job mine was not accepted: the id is in use by other work (hostname)" in err


def test_a_broker_that_is_away_is_exit_69(jetq):
    code, _, err = jetq("gang", "--broker", "redis://127.0.0.1:1", "--", "hostname")

    assert (code, err.count("\n")) == (69, 1)


@pytest.fixture
def started(stage) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Give ``started(word...)``: the verb as a process of its own."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, **how: object) -> subprocess.Popen[str]:
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
        running.append(subprocess.Popen([sys.executable, "-m", "jetq", *words], **how))  # type: ignore[call-overload]
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait(10)


def test_while_it_waits_a_pipe_gets_a_line_for_each_reason_and_none_for_each_second(stage, started, wait_until):
    verb = started(*GANG, "--", "hostname")
    said: list[str] = []
    stage.sent()

    def says(text: str) -> None:
        assert verb.stderr is not None
        wait_until(lambda: said.append(verb.stderr.readline()) or text in said[-1], what=text)

    stage.set("QUEUED", reason="a, b are kept for it until x on a ended; expected in 40 s")
    says("are kept for it")
    for seconds in range(39, 30, -1):
        stage.set("QUEUED", reason=f"a, b are kept for it until x on a ended; expected in {seconds} s")
    for seconds in range(5, 0, -1):
        stage.set("QUEUED", reason=f"pauses {seconds} s before its next attempt")
    says("pauses")
    stage.set("RESERVED", nodes="a b")
    says("has its nodes on a, b")
    stage.set("PREPARING")
    says("prepares on a, b")
    stage.set("SUCCEEDED", result={"code": 0})

    assert verb.wait(20) == 0
    assert sum("are kept for it" in line for line in said) == 1
    assert sum("pauses" in line for line in said) == 1


@pytest.mark.parametrize("state", ["QUEUED", "RESERVED"])  # it may have its next nodes at once
def test_a_new_attempt_is_told_with_its_reason(stage, started, wait_until, state):
    verb = started(*GANG, "--", "hostname")
    assert verb.stderr is not None
    stage.runs()
    wait_until(lambda: "runs on a, b" in verb.stderr.readline(), what="what it says of the run")
    why = "rank 1 on b exited with code 3; attempt 2 follows, retry 1 of 1 for failures of the program"
    history = [{"at": 1, "what": "began", "node": "", "why": "attempt 1"}]
    history += [{"at": 2, "what": "ran", "node": node, "why": why, "ran": True} for node in "ab"]
    stage.set(state, history=history, reason="pauses 5 s before its next attempt")
    wait_until(lambda: verb.stderr.readline() == f"jetq: {why}\n", what="the reason")
    stage.set("SUCCEEDED", result={"code": 0})

    assert verb.wait(20) == 0
    assert why not in verb.stderr.read()


@SIGNALS
def test_ctrl_c_and_sigterm_cancel_and_wait_for_the_end(stage, started, wait_until, signum, code):
    verb = started(*GANG, "--", "hostname")
    stage.runs()
    stage.store.client.hset(stage.key, "parts", '["mine.1.0"]')
    assert verb.stderr is not None
    wait_until(lambda: "runs on a, b" in verb.stderr.readline(), what="what it says of the run")
    verb.send_signal(signum)
    wait_until(lambda: stage.store.client.hget(stage.key, "cancel_asked"), what="the cancel")
    assert verb.poll() is None
    stage.write((0, "bye"))
    stage.set("CANCELLED")

    out, err = verb.communicate(timeout=20)
    assert (verb.returncode, out) == (code, "[0] bye\n")
    assert "cancelled; waits until all of it has ended" in err
    assert "it has ended: CANCELLED" in err


@SIGNALS
def test_a_second_ctrl_c_or_sigterm_does_not_wait(stage, started, wait_until, signum, code):
    verb = started(*GANG, "--", "hostname")
    stage.runs()
    stage.store.client.hset(stage.key, "parts", '["mine.1.0"]')
    assert verb.stderr is not None
    wait_until(lambda: "runs on a, b" in verb.stderr.readline(), what="what it says of the run")
    verb.send_signal(signum)
    wait_until(lambda: stage.store.client.hget(stage.key, "cancel_asked"), what="the cancel")
    verb.send_signal(signum)

    _, err = verb.communicate(timeout=20)
    assert verb.returncode == code
    assert "it has been asked to end; see whether it has: jetq job show mine" in err
    assert stage.row().state == "RUNNING"


def test_a_gang_that_waits_is_cancelled_at_once(stage, started, wait_until):
    verb = started(*GANG, "--", "hostname")
    stage.sent()
    assert verb.stderr is not None
    wait_until(lambda: "waits" in verb.stderr.readline(), what="what it says of the wait")
    verb.send_signal(signal.SIGINT)

    verb.communicate(timeout=20)
    assert verb.returncode == 130
    assert (stage.row().state, stage.row().reason) == ("CANCELLED", "cancelled by Ctrl-C")


def test_a_reader_that_has_gone_does_not_end_the_gang(stage, started):
    verb = started(*GANG, "--", "hostname")
    assert verb.stdout is not None
    verb.stdout.close()
    verb.stdout = None
    stage.runs()
    stage.write((0, "one"))

    _, err = verb.communicate(timeout=20)
    assert verb.returncode == 1
    assert "nobody reads what the gang writes; it goes on: jetq job show mine" in err
    assert stage.row().state == "RUNNING"


def test_a_terminal_has_one_line_for_the_wait_and_a_bar_for_the_progress(stage, started, wait_until):
    ours, theirs = pty.openpty()
    verb = started(*GANG, "--", "hostname", stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"})
    os.close(theirs)
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                got = os.read(ours, 4096)
            except OSError:  # the other side is closed
                return
            if not got:
                return
            seen.extend(got)

    reader = threading.Thread(target=read)
    reader.start()
    stage.sent()
    for seconds in (40, 39, 38):
        stage.set("QUEUED", reason=f"2 ahead of it; expected in {seconds} s")
        wait_until(partial(seen.count, b"expected in %d s" % seconds), what="the reason")
    stage.runs()
    stage.write((0, "a line"), progress='{"step": 3, "total": 10, "metrics": {"loss": 0.5213}}')
    wait_until(lambda: b"3/10" in seen and b"loss 0.5213" in seen, what="the bar")
    stage.set("SUCCEEDED", result={"code": 0})
    out, _ = verb.communicate(timeout=20)
    reader.join(10)
    os.close(ours)

    assert (verb.returncode, out) == (0, "[0] a line\n")
    assert b"2 ahead of it" not in seen.rpartition(b"runs on a, b")[2]


def test_jobs_are_listed_by_kind_and_members_of_gangs_are_none(stage, jetq):
    jetq(*GANG, "--detach", "--", "hostname")
    jetq("submit", "gang.member", "--id", "other")
    lead = stage.store.lead("lead", "e" * 16, lease_s=600).term
    assert stage.store.reserve("e" * 16, lead, stage.store.gangs()[0], ["a", "b"], "its turn") == ""

    def listed(*words: str) -> set[str]:
        return {row["id"] for row in json.loads(jetq("job", "list", "--json", *words)[1])}

    assert (listed(), listed("--kind", "gang"), listed("--kind", "task")) == ({"mine", "other"}, {"mine"}, {"other"})
    assert listed("--kind", "gang", "--state", "RESERVED") == {"mine"}


def test_job_show_tells_of_a_gang_that_waits_and_of_one_that_failed(stage, jetq):
    jetq(*GANG, "--detach", "--", "hostname")
    stage.set("QUEUED", reason="2 ahead of it; expected in 40 s", expected_at="1700000000.5")

    waits = jetq("job", "show", "mine")[1]
    assert "2 ahead of it; expected in 40 s" in waits
    assert "expected   2023-11-1" in waits

    stage.set("RUNNING", nodes="a b", started_at="100", progress={"step": 3, "total": 10, "metrics": {"loss": 0.52}})
    assert "progress   step 3 of 10, loss 0.52" in jetq("job", "show", "mine")[1]

    stage.set("FAILED", error="rank 1 on b exited with code 3", exit_code=3, tail=["Traceback", "[bold]boom"])
    failed = jetq("job", "show", "mine")[1]
    assert "exit code  3" in failed
    assert failed.endswith("last lines of the rank that failed first:\n  Traceback\n  [bold]boom\n")


def test_the_logs_of_a_gang_that_runs_are_followed_live(stage, jetq, started):
    jetq(*GANG, "--detach", "--", "hostname")
    stage.runs()
    stage.write((0, "one"), (1, "two"))

    verb = started("job", "logs", "-f", "mine", "--rank", "1")
    assert verb.stdout is not None
    first = verb.stdout.readline()
    stage.write((1, "three"), (None, "so much for that"))
    stage.set("SUCCEEDED", result={"code": 0})
    out, err = verb.communicate(timeout=20)

    assert (verb.returncode, first + out, err) == (0, "[1] two\n[1] three\n", "")


def test_the_logs_of_nodes_that_cannot_be_asked_are_the_live_copy(stage, jetq):
    jetq(*GANG, "--detach", "--", "hostname")
    stage.runs()
    stage.write((0, "one"), (1, "two"))
    stage.set("SUCCEEDED", result={"code": 0})

    code, out, err = jetq("job", "logs", "mine")
    lines = [json.loads(line) for line in jetq("job", "logs", "mine", "--json", "--rank", "0")[1].splitlines()]

    assert (code, out) == (1, "[0] one\n[1] two\n")
    assert "what follows is the live copy of what was written there" in err
    assert [(line["rank"], line["line"]) for line in lines] == [(0, "one")]


def test_only_gangs_have_ranks(stage, yard, jetq):
    jetq("submit", "demo.nap", "1", "--id", "nap", "--wait-for-node")

    assert jetq("job", "logs", "nap", "--rank", "0") == (
        2,
        "",
        "jetq: only gangs have ranks, and nap is none; leave out --rank\n",
    )
    jetq(*GANG, "--detach", "--", "hostname")
    assert jetq("job", "logs", "-f", "--attempt", "1", "mine")[0] == 2


def test_python_follows_a_gang_that_runs(stage, jetq):
    jetq(*GANG, "--detach", "--", "hostname")
    stage.runs()
    stage.write((0, "one"), (1, "two"))
    lines = JetQ().job("mine").logs(follow=True)

    first = next(lines)
    stage.set("SUCCEEDED", result={"code": 0})
    assert [first, *lines] == ["[0] one", "[1] two"]


@pytest.fixture
def frail(yard, start_broker, monkeypatch, wait_until):
    """Give a stage on a broker of its own, and that broker."""
    server = start_broker(appendonly=True)
    monkeypatch.setenv("JETQ_BROKER_URL", server.url)
    own = type(yard)(server.url)
    for name in "ab":
        own.node(name, tasks=("gang.member",))
    return server, Stage(own, wait_until)


def test_a_broker_that_comes_back_is_waited_for(frail, started, wait_until):
    server, stage = frail
    verb = started(*GANG, "--", "hostname")
    assert verb.stderr is not None
    stage.runs()
    wait_until(lambda: "runs on a, b" in verb.stderr.readline(), what="what it says of the run")
    server.kill()
    wait_until(lambda: "the broker does not answer; the gang goes on" in verb.stderr.readline(), what="its words")
    server.start()
    stage.write((0, "still here"))
    stage.set("SUCCEEDED", result={"code": 0})

    out, _ = verb.communicate(timeout=30)
    assert (verb.returncode, out) == (0, "[0] still here\n")


def test_a_broker_that_stays_away_is_exit_69(frail, jetq, monkeypatch):
    server, stage = frail
    monkeypatch.setattr(following, "BROKER_PATIENCE_S", 0.2)
    jetq(*GANG, "--detach", "--", "hostname")
    stage.runs()
    looked = following.Look

    def killing(*args, **fields):
        server.kill()
        return looked(*args, **fields)

    monkeypatch.setattr(following, "Look", killing)
    code, _, err = jetq(*GANG, "--", "hostname")

    assert code == 69
    assert "the broker does not answer" in err.splitlines()[-1]


def test_a_cancel_that_does_not_reach_the_broker_says_so(frail, started, wait_until):
    server, stage = frail
    verb = started(*GANG, "--", "hostname")
    assert verb.stderr is not None
    stage.runs()
    wait_until(lambda: "runs on a, b" in verb.stderr.readline(), what="what it says of the run")
    server.kill()
    wait_until(lambda: "the broker does not answer; the gang goes on" in verb.stderr.readline(), what="its words")
    verb.send_signal(signal.SIGINT)

    _, err = verb.communicate(timeout=30)
    assert verb.returncode == 69
    assert "it may run on; once the broker is back: jetq job cancel mine" in err
