"""`jetq job logs` and `jetq job files` say in one line why there is nothing to show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetq import JetQ
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import LogFile
from jetq.service.jobfiles.server import FileServer


@pytest.fixture
def node_a(yard, tmp_path: Path) -> Iterator[Callable[[], JobFolders]]:
    """Give ``node_a() -> folders``: node ``a``, with a real HTTP port."""
    folders = JobFolders(tmp_path / "jobs")
    server = FileServer(folders, None, yard.url)
    server.start()

    def join() -> JobFolders:
        yard.node("a")
        yard.store.client.hset(f"{yard.store.prefix}node:a", "door", server.door.as_text())
        return folders

    yield join
    server.stop()


def test_a_job_that_has_not_begun_says_so(yard, jetq, node_a):
    node_a()
    job = JetQ(yard.url).submit("yard.count", 1)

    code, out, err = jetq("job", "logs", job.id)

    assert (code, out) == (0, "")
    assert err.startswith("it has not started yet")


def test_a_silent_job_says_so(yard, jetq, node_a):
    node_a()
    job = JetQ(yard.url).submit("yard.count", 1)
    yard.end(job.id)

    assert jetq("job", "logs", job.id) == (0, "", "it has printed nothing\n")
    assert jetq("job", "logs", "-f", job.id) == (0, "", "it has printed nothing\n")
    assert jetq("job", "files", job.id) == (0, "", "it has left no files\n")
    assert jetq("job", "logs", job.id, "--json") == (0, "", "")
    assert jetq("job", "files", job.id, "--json") == (0, "[]\n", "")


def test_lines_go_to_stdout_and_where_they_come_from_to_stderr(yard, jetq, node_a):
    folders = node_a()
    job = JetQ(yard.url).submit("yard.count", 1)
    yard.end(job.id)
    LogFile(folders.folder(job.id), 1, limit_bytes=4096).write(b"one\r\n[bold]two[/]\n\xff\n")

    code, out, err = jetq("job", "logs", job.id)
    rows = [json.loads(line) for line in jetq("job", "logs", job.id, "--json")[1].splitlines()]

    assert (code, out) == (0, "one\n[bold]two[/]\n\ufffd\n")
    assert err.startswith("== attempt 1 on a, from ")
    assert [(row["node"], row["attempt"], row["line"]) for row in rows][:2] == [
        ("a", 1, "one"),
        ("a", 1, "[bold]two[/]"),
    ]


def test_files_are_a_table_and_odd_names_move_no_cursor(yard, jetq, node_a, tmp_path):
    folders = node_a()
    job = JetQ(yard.url).submit("yard.count", 1)
    yard.end(job.id)
    folders.files(job.id).mkdir(parents=True)
    (folders.files(job.id) / "plain.txt").write_text("12345")
    (folders.files(job.id) / "odd\x1b[2J.txt").write_text("1")

    code, out, _err = jetq("job", "files", job.id)
    got = jetq("job", "files", job.id, "--get", str(tmp_path / "out"))

    assert code == 0
    assert "plain.txt" in out
    assert "\x1b" not in out + got[1]
    assert (tmp_path / "out" / "plain.txt").read_text() == "12345"


@pytest.mark.parametrize("verb", ["logs", "files"])
def test_an_unknown_job_is_one_line(yard, jetq, verb):
    code, out, err = jetq("job", verb, "nobody-knows")

    assert (code, out) == (2, "")
    assert err.startswith("jetq: no job has the id 'nobody-knows'")


@pytest.mark.parametrize("verb", ["logs", "files"])
def test_a_node_without_a_port_is_one_line_and_exit_1(yard, jetq, verb):
    yard.node("a")
    job = JetQ(yard.url).submit("yard.count", 1)
    yard.end(job.id)

    code, _out, err = jetq("job", verb, job.id)

    assert code == 1
    assert err.splitlines()[0] == "jetq: node a serves no files; its own log says why"
