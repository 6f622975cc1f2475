"""The shell completes names that the cluster knows; without one it completes nothing, soon and in silence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest


@pytest.fixture
def complete(monkeypatch) -> Callable[..., tuple[list[str], str]]:
    """Give ``complete(word...) -> (words for the last one, stderr)``, as bash asks for them."""

    def ask(*words: str) -> tuple[list[str], str]:
        env = {
            **os.environ,
            "_JETQ_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["jetq", *words]),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run(
            [sys.executable, "-m", "jetq"], env=env, capture_output=True, text=True, timeout=30, check=False
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line], done.stderr

    return ask


def test_names_of_nodes_tasks_and_jobs_are_completed(yard, complete, jetq):
    yard.node("pine")
    yard.node("oak", tasks=("yard.count", "yard.see"))
    jobs = [jetq("submit", "yard.count", str(n))[1].strip() for n in range(2)]

    assert complete("node", "show", "") == (["oak", "pine"], "")
    assert complete("node", "drain", "p") == (["pine"], "")
    assert complete("submit", "yard.") == (["yard.count", "yard.nap", "yard.see"], "")
    assert complete("route", "yard.s") == (["yard.see"], "")
    assert complete("job", "list", "--name", "yard.s") == (["yard.see"], "")
    assert complete("job", "show", "") == (jobs[::-1], "")
    assert complete("job", "logs", jobs[0][:20]) == ([jobs[0]], "")
    assert complete("job", "cancel", jobs[0], "") == ([jobs[1]], "")


def test_streams_are_completed(yard, complete, jetq):
    yard.node("pine", 4, "video", tasks=("yard.count", "stream.run"))
    jetq("stream", "test:ball", "--id", "gate")
    task = jetq("submit", "yard.count")[1].strip()

    assert complete("route", "--stream", "") == (["gate"], "")
    assert complete("stream", "test:ball", "--id", "g") == (["gate"], "")
    assert complete("stream", "test:ball", "--node", "") == (["pine"], "")
    assert complete("stream", "test:ball", "--analyzer", "mo") == (["motion"], "")
    assert complete("stream", "test:ball", "--sink", "") == (["jsonl", "mp4", "webhook"], "")
    assert complete("job", "show", "") == ([task, "gate"], "")
    assert complete("job", "logs", "g") == (["gate"], "")


def test_the_flags_given_so_far_name_the_cluster(yard, complete, monkeypatch):
    yard.node("pine")
    monkeypatch.delenv("JETQ_BROKER_URL")

    assert complete("node", "show", "--broker", yard.url, "") == (["pine"], "")
    assert complete("node", "show", "--broker", yard.url, "--cluster", "other", "") == ([], "")


@pytest.mark.parametrize("url", ["", "redis://127.0.0.1:1/0", "http://nowhere", "redis://192.0.2.1:6379/0"])
def test_without_a_broker_there_are_no_words_and_no_complaint(complete, monkeypatch, tmp_path, url):
    monkeypatch.setenv("JETQ_DIR", str(tmp_path))
    monkeypatch.setenv("JETQ_BROKER_URL", url)

    assert complete("node", "show", "") == ([], "")
    assert complete("nosuch", "")[1] == ""


def test_a_frozen_broker_holds_up_the_shell_no_longer_than_a_moment(start_broker, monkeypatch, complete):
    broker = start_broker()
    monkeypatch.setenv("JETQ_BROKER_URL", broker.url)
    begun_s = time.monotonic()
    complete("node", "show", "")
    usual_s = time.monotonic() - begun_s
    broker.freeze()

    begun_s = time.monotonic()
    assert complete("node", "show", "") == ([], "")
    took_s = time.monotonic() - begun_s
    broker.thaw()

    assert took_s < usual_s + 0.7
