"""`jetq job logs`, `jetq job files` and `jetq job preview` say in one line why there is nothing to show."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from jetq import JetQ
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import LogFile
from jetq.service.jobfiles.peephole import address_of
from jetq.service.jobfiles.server import FileServer
from jetq.video.analyzers.base import Result
from jetq.video.live.preview import Preview
from jetq.video.live.sink import Seen


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


@pytest.fixture
def stream(yard, node_a) -> Iterator[str]:
    """Give the id of a stream that runs on node ``a`` and shows itself."""
    folders = node_a()
    folders.root.mkdir()
    job = JetQ(yard.url).submit("yard.count", 1)
    yard.store.client.hset(f"{yard.store.prefix}job:{job.id}", mapping={"kind": "stream", "node": "a"})
    over, preview = threading.Event(), Preview(address_of(folders.root, job.id))
    picture = np.zeros((90, 160, 3), np.uint8)

    def run() -> None:
        while not over.wait(0.02):
            preview.offer(seen)
        preview.close()

    seen = Seen(job.id, "t", 1, 1.8e9, Result(0.1), lambda: picture)
    preview.offer(seen)

    thread = threading.Thread(target=run)
    thread.start()
    yield job.id
    over.set()
    thread.join()


def test_what_a_stream_sees_is_saved(jetq, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    code, out, err = jetq("job", "preview", stream)
    elsewhere = jetq("job", "preview", stream, "--out", str(tmp_path / "gate.jpg"))
    nowhere = jetq("job", "preview", stream, "--out", str(tmp_path / "no" / "gate.jpg"))

    assert (code, out) == (0, f"{stream}.jpg\n")
    assert err == f"what {stream} saw on a; --url names the moving picture\n"
    assert (tmp_path / out.strip()).read_bytes()[:2] == b"\xff\xd8"
    assert elsewhere[:2] == (0, f"{tmp_path / 'gate.jpg'}\n")
    assert (nowhere[0], "choose another file with --out" in nowhere[2]) == (2, True)


def test_what_opens_a_preview_is_printed_only_when_asked_for(jetq, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    saved = jetq("job", "preview", stream)
    code, out, _err = jetq("job", "preview", stream, "--url")
    url, header = out.splitlines()

    assert "Bearer" not in saved[1] + saved[2]
    assert code == 0
    assert url.endswith(f"/jobs/{stream}/preview")
    assert header.startswith("Authorization: Bearer ")


def test_a_preview_is_told_as_json_too(jetq, stream, tmp_path):
    path = str(tmp_path / "gate.jpg")

    saved = json.loads(jetq("job", "preview", stream, "--out", path, "--json")[1])
    live = json.loads(jetq("job", "preview", stream, "--url", "--json")[1])

    assert saved == {"node": "a", "file": path}
    assert set(live) == {"url", "header"}


def test_only_a_stream_has_a_preview(yard, jetq):
    job = JetQ(yard.url).submit("yard.count", 1, wait_for_node=True)

    code, _out, err = jetq("job", "preview", job.id)

    assert code == 2
    assert err == f"jetq: only a stream can be looked at, and {job.id} is a task\n"


@pytest.mark.parametrize("verb", ["logs", "files", "preview"])
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
