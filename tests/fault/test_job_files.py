"""What a job prints and leaves stays on the node that ran it, and is found there from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Bodies that print in every way there is.
TASKS = '''
import ctypes, logging, os, signal, subprocess, sys, threading
from pathlib import Path
from celery import shared_task
from celery.utils.log import get_task_logger

@shared_task(name="said.all")
def say_all(word):
    """Print through Python, the C library, a grandchild, and two kinds of loggers."""
    print(f"print {word}")
    print(f"error {word}", file=sys.stderr)
    libc = ctypes.CDLL(None)
    libc.puts(f"libc {word}".encode())
    libc.fflush(None)
    subprocess.run(["sh", "-c", f"echo grandchild {word}"], check=True)
    logging.getLogger("yard").warning("logged %s", word)
    get_task_logger("yard").info("told %s", word)

@shared_task(name="said.lines")
def say_lines(count, until=None):
    """Print numbered lines, the last one only once a file is there."""
    for number in range(count - 1):
        print(f"line {number}")
    while until and not Path(until).exists():
        threading.Event().wait(0.02)
    print(f"line {count - 1}")

@shared_task(name="said.nothing")
def say_nothing():
    """Print nothing."""

@shared_task(name="said.dies_once", bind=True)
def dies_once(self, note):
    """Print, and kill its own process the first time."""
    print("attempt", os.environ["JETQ_ATTEMPT"])
    if not Path(note).exists():
        Path(note).touch()
        os.kill(os.getpid(), signal.SIGKILL)

@shared_task(name="said.leaves")
def leave(names):
    """Leave files."""
    for name in names:
        path = Path(os.environ["JETQ_FILES_DIR"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"this is {name}")
    os.symlink("/etc/passwd", Path(os.environ["JETQ_FILES_DIR"], "link"))

@shared_task(name="said.retries", bind=True, max_retries=1, default_retry_delay=0)
def retries(self):
    """Ask for another run once."""
    print("retry", self.request.retries)
    if not self.request.retries:
        raise self.retry(countdown=0)
'''


@pytest.fixture
def app_dir(app_dir: Path) -> Path:
    """Give the user's folder with the tasks above as well."""
    (app_dir / "tasks" / "said.py").write_text(TASKS)
    return app_dir


@pytest.fixture
def ended(ledger, wait_until) -> Callable[[str], object]:
    """Give ``ended(job id) -> row``: waits for its end."""
    return lambda job_id: wait_until(lambda: (row := ledger.job(job_id)) and row.ended and row, 30, f"end of {job_id}")


def lines_of(text: str) -> list[str]:
    return text.splitlines()


@pytest.mark.parametrize("pool", ["fork", "spawn"])
def test_all_that_a_body_prints_is_in_its_log_and_in_the_nodes(start_node, send, ended, jetq, pool):
    node = start_node("a", "--pool", pool)
    first, second = send("said.all", "one"), send("said.all", "two")
    for job_id in (first, second):
        ended(job_id)

    for job_id, word in ((first, "one"), (second, "two")):
        said = jetq("job", "logs", job_id)
        assert said.returncode == 0, said.stderr
        for start in ("print", "error", "libc", "grandchild"):
            assert f"{start} {word}" in lines_of(said.stdout)
            assert f"{start} {word}" in node.log
        assert f"logged {word}" in said.stdout
        assert f"told {word}" in said.stdout
        assert "attempt 1 on a" in said.stderr
    assert "two" not in jetq("job", "logs", first).stdout
    assert "succeeded in" not in node.log


def test_a_silent_job_leaves_nothing_on_the_disk(start_node, send, ended, jetq, tmp_path):
    start_node("a", JETQ_DIR=str(tmp_path / "home"))
    job_id = send("said.nothing")
    ended(job_id)

    said = jetq("job", "logs", job_id)

    assert (said.returncode, said.stdout, said.stderr.strip()) == (0, "", "it has printed nothing")
    assert list((tmp_path / "home" / "nodes" / "a" / "jobs").iterdir()) == []


def test_a_log_is_followed_until_the_job_has_ended(start_node, send, ledger, redis_url, tmp_path, wait_until):
    start_node("a")
    job_id = send("said.lines", 3, str(tmp_path / "go"))
    argv = [sys.executable, "-m", "jetq", "job", "logs", "-f", job_id]
    env = {**os.environ, "JETQ_BROKER_URL": redis_url}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as reader:
        early = [reader.stdout.readline(), reader.stdout.readline()]

        state = ledger.job(job_id).state
        (tmp_path / "go").touch()
        rest = reader.communicate(timeout=30)[0]

    assert early == ["line 0\n", "line 1\n"]
    assert state == "RUNNING"
    assert rest == "line 2\n"
    assert reader.returncode == 0


def test_attempts_are_told_apart_and_a_killed_childs_last_words_are_kept(start_node, send, ended, jetq, tmp_path):
    start_node("a")
    job_id = send("said.dies_once", str(tmp_path / "died"))
    ended(job_id)

    rows = [json.loads(line) for line in lines_of(jetq("job", "logs", job_id, "--json").stdout)]

    assert [(row["attempt"], row["node"], row["line"]) for row in rows] == [
        (1, "a", "attempt 0"),
        (2, "a", "attempt 1"),
    ]
    assert lines_of(jetq("job", "logs", job_id, "--attempt", "2").stdout) == ["attempt 1"]


def test_files_are_listed_and_fetched_and_links_are_not(start_node, send, ended, jetq, tmp_path):
    start_node("a")
    names = ["count.csv", "pictures/one 1.jpg", "pictures/#2?.jpg"]
    job_id = send("said.leaves", names)
    ended(job_id)

    listed = json.loads(jetq("job", "files", job_id, "--json").stdout)
    got = jetq("job", "files", job_id, "--get", str(tmp_path / "out"))

    assert sorted(row["name"] for row in listed) == sorted(names)
    assert got.returncode == 0, got.stderr
    assert sorted(lines_of(got.stdout)) == sorted(str(tmp_path / "out" / name) for name in names)
    assert all((tmp_path / "out" / name).read_text() == f"this is {name}" for name in names)


def test_the_run_before_a_retry_is_found_on_its_own_node(start_node, send, ended, jetq, ledger):
    start_node("a")
    job_id = send("said.retries")
    ended(job_id)

    assert lines_of(jetq("job", "logs", job_id).stdout)[-1] == "retry 1"
    assert "retry 0" in lines_of(jetq("job", "logs", job_id).stdout)
    assert [event["what"] for event in ledger.job(job_id).history] == ["again"]


def test_following_goes_on_where_a_dead_nodes_job_runs_again(start_node, send, ledger, redis_url, tmp_path, wait_until):
    first = start_node("a")
    job_id = send("said.lines", 2, str(tmp_path / "go"))
    argv = [sys.executable, "-m", "jetq", "job", "logs", "-f", job_id]
    env = {**os.environ, "JETQ_BROKER_URL": redis_url}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        seen = reader.stdout.readline()
        start_node("b")
        os.kill(first.guard, signal.SIGKILL)
        wait_until(lambda: (row := ledger.job(job_id)).nodes == ["b"] and row.started_at, within_s=40, what="it moved")
        (tmp_path / "go").touch()
        out, said = reader.communicate(timeout=40)

    assert seen == "line 0\n"
    assert out == "line 0\nline 1\n"
    assert "== attempt 2 on b" in said
    assert said.count("jetq: node a") == 1
    assert "does not answer" in said
    assert reader.returncode == 1
