"""What a process prints for a job is in that job's log when the job ends, and in no other's."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import process
from jetq.service.jobfiles.collector import Collector
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import open_from, run_logs
from jetq.service.jobfiles.outlet import OUTPUT, output_of, standard_outlet

ROOT = Path(__file__).resolve().parents[4]
#: A process that runs jobs as a pool child does.
CHILD = """
import os, subprocess, sys
from jetq.service.jobfiles.outlet import standard_outlet
outlet = standard_outlet()
"""


@pytest.fixture
def folders(tmp_path: Path) -> JobFolders:
    return JobFolders(tmp_path / "jobs")


@pytest.fixture
def collector(folders: JobFolders) -> Iterator[Collector]:
    made = Collector(folders, log_max_bytes=1 << 20)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def child(collector: Collector) -> Iterator[Callable[..., int | None]]:
    """Give ``child(code) -> exit code``: runs code in a process of its own."""
    started: list[process.Child] = []

    def run(code: str, within_s: float = 30.0) -> int | None:
        env = {**os.environ, OUTPUT: collector.address, "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-c", CHILD + textwrap.dedent(code)]
        started.append(process.spawn(argv, env=env, stdout=process.DEVNULL, stderr=process.DEVNULL))
        return started[-1].wait(within_s)

    yield run
    for one in started:
        one.kill()


def log_of(folders: JobFolders, job_id: str) -> list[str]:
    """All output of a job, one text a run."""
    texts = []
    for run in run_logs(folders.folder(job_id)):
        _start, parts = open_from(folders.folder(job_id), run.run, 0)
        texts.append(b"".join(os.pread(fd, past - first, first) for fd, first, past in parts).decode())
        for fd, _first, _past in parts:
            os.close(fd)
    return texts


def test_each_job_has_its_own_lines_however_fast_they_follow_each_other(child, folders):
    code = child(
        """
        for number in range(300):
            outlet.begin(f"job-{number % 3}", number // 3)
            if number % 3:
                print("python", number)
                os.write(2, b"fd %d\\n" % number)
            outlet.end()
        """
    )

    assert code == 0
    assert log_of(folders, "job-0") == []
    for job in (1, 2):
        numbers = range(job, 300, 3)
        assert log_of(folders, f"job-{job}") == [f"python {number}\nfd {number}\n" for number in numbers]


def test_all_that_a_job_printed_is_in_its_log_when_end_returns(child, folders):
    code = child(
        f"""
        outlet.begin("big", 0)
        for number in range(20000):
            print("line", number)
        outlet.end()
        [path] = [os.path.join(top, name) for top, _, names in os.walk({str(folders.root)!r}) for name in names]
        lines = open(path).read().split("\\n")
        sys.exit(0 if lines == [f"line {{n}}" for n in range(20000)] + [""] else 7)
        """
    )

    assert code == 0


def test_a_killed_process_leaves_its_last_words(child, folders, wait_until):
    code = child(
        """
        outlet.begin("killed", 0)
        subprocess.run(["sh", "-c", "echo from below"])
        print("last words")
        os.kill(os.getpid(), 9)
        """
    )

    assert code == -signal.SIGKILL
    wait_until(lambda: log_of(folders, "killed") == ["from below\nlast words\n"], what="its log")


def test_a_body_that_closes_its_stdout_harms_nobody(child, folders):
    code = child(
        """
        outlet.begin("closes", 0)
        sys.stdout.close()
        outlet.end()
        outlet.begin("next", 0)
        os.write(1, b"here\\n")
        outlet.end()
        """
    )

    assert code == 0
    assert log_of(folders, "next") == ["here\n"]


def test_what_is_printed_between_jobs_is_no_jobs(child, folders):
    code = child(
        """
        print("before")
        sys.stdout.flush()
        outlet.begin("one", 0)
        outlet.end()
        print("between", flush=True)
        """
    )

    assert code == 0
    assert log_of(folders, "one") in ([], ["before\n"])
    assert not any("between" in text for text in log_of(folders, "one"))


def test_a_program_that_runs_for_a_job_writes_to_its_log(collector, folders):
    with output_of("job", 1, {OUTPUT: collector.address}) as fd:
        program = process.spawn(["sh", "-c", "echo out; echo error >&2"], stdout=fd, stderr=fd)
        code = program.wait(10)

    assert code == 0
    assert log_of(folders, "job") == ["out\nerror\n"]
    [run] = run_logs(folders.folder("job"))
    assert run.attempt == 2


@pytest.fixture
def told(monkeypatch) -> Iterator[list[str]]:
    """Give the events that the collector logs."""
    events: list[str] = []
    logger = logging.getLogger("jetq.output")
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: events.append(record.getMessage().split()[0]))
    monkeypatch.setattr(logger, "handlers", [handler])
    before = logger.level
    logger.setLevel(logging.INFO)
    yield events
    logger.setLevel(before)


def test_a_full_disk_is_counted_and_told_once(collector, folders, told):
    folders.root.write_text("in the way")

    with output_of("job", 0, {OUTPUT: collector.address}) as fd:
        for _ in range(3):
            os.write(fd, b"12345\n")
    lost = collector.lost_bytes
    folders.root.unlink()
    with output_of("job", 0, {OUTPUT: collector.address}) as fd:
        os.write(fd, b"kept\n")

    assert lost == 18
    assert log_of(folders, "job") == ["kept\n"]
    assert told == ["output.lost", "output.kept_again"]


def test_without_a_collector_output_goes_where_it_went(capfd):
    nowhere = {OUTPUT: "jetq-nobody-listens-here"}

    with output_of("job", 0, nowhere) as fd:
        assert fd is None
    assert standard_outlet(nowhere) is None
    assert standard_outlet({}) is None
    os.write(1, b"still here\n")

    assert "still here" in capfd.readouterr().out


def test_a_stranger_who_connects_is_ignored(collector, folders):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(f"\0{collector.address}")
        stranger.sendall(b"no descriptors")
        with output_of("job", 0, {OUTPUT: collector.address}) as fd:
            os.write(fd, b"served\n")

    assert log_of(folders, "job") == ["served\n"]
