"""What a job left is put together from several nodes; one that is away or lies is named, the others are shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from jetq import process
from jetq.errors import BrokerDown, FilesAway, NoSuchJob, UsageError
from jetq.job import Job
from jetq.model.beat import NodeRow
from jetq.model.job import JobRow
from jetq.service.jobfiles.door import Door
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import LogFile
from jetq.service.jobfiles.remains import Remains, ran_on
from jetq.service.jobfiles.server import FileServer

BROKER = "redis://127.0.0.1:6379/0"
JOB = JobRow("j", "task", "yard.count", "SUCCEEDED", ["b"], 1, 1.0, 2.0, 3.0, None, None, None)


def event(node: str, *, ran: bool = True) -> dict[str, object]:
    return {
        "at": 1.0,
        "what": "lost" if ran else "moved",
        "node": node,
        "why": "gone",
        **({"ran": True} if ran else {}),
    }


@dataclass
class Ledger:
    """What a reader of the ledger is asked here."""

    row: JobRow | None = JOB
    doors: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    outages: int = 0  # so many questions meet a broker that is away
    then: Callable[[Ledger], None] = lambda _ledger: None  # after a look at the job

    def job(self, job_id: str) -> JobRow | None:
        if self.outages:
            self.outages -= 1
            raise BrokerDown("away")
        row = self.row
        self.then(self)
        return row

    def door(self, node: str) -> str:
        return self.doors.get(node, "")

    def nodes(self) -> list[NodeRow]:
        return [NodeRow(name, state, 1, 0, 1, {}, 1, [], "pc", 0.1, {}) for name, state in self.states.items()]


class Node:
    """A node's folder and its real HTTP port."""

    def __init__(self, home: Path) -> None:
        self.folders = JobFolders(home)
        self.server = FileServer(self.folders, None, BROKER)
        self.server.start()

    def print(self, text: str, attempt: int = 1) -> None:
        LogFile(self.folders.folder("j"), attempt, limit_bytes=4096).write(text.encode())

    def leave(self, name: str, text: str) -> None:
        path = self.folders.files("j") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def node(tmp_path: Path, ledger: Ledger) -> Iterator[Callable[[str], Node]]:
    made: list[Node] = []

    def start(name: str) -> Node:
        made.append(Node(tmp_path / "nodes" / name))
        ledger.doors[name], ledger.states[name] = made[-1].server.door.as_text(), "up"
        return made[-1]

    yield start
    for one in made:
        one.server.stop()


class Liar(BaseHTTPRequestHandler):
    """Answers whatever the test says."""

    answers: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        body = self.answers.get(self.path, b"evil")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def liar(ledger: Ledger) -> Iterator[type[Liar]]:
    """Give a node ``b`` that answers what it likes."""
    handler = type("Handler", (Liar,), {"answers": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    ledger.doors["b"] = Door(f"http://127.0.0.1:{server.server_address[1]}", "t", process.place()).as_text()
    yield handler
    server.shutdown()
    server.server_close()


def test_lines_of_all_nodes_come_in_the_order_of_the_runs(ledger, node):
    node("a").print("first\nlast words")
    node("b").print("second\n", attempt=2)
    ledger.row = replace(JOB, history=[event("a")])

    lines = list(Remains(ledger, "j").lines())

    assert [(line.node, line.attempt, line.text) for line in lines] == [
        ("a", 1, "first"),
        ("a", 1, "last words"),
        ("b", 2, "second"),
    ]


def test_one_attempt_alone(ledger, node):
    node("a").print("first\n")
    node("b").print("second\n", attempt=2)
    ledger.row = replace(JOB, history=[event("a")])

    assert [line.text for line in Remains(ledger, "j").lines(attempt=2)] == ["second"]


def test_a_node_that_is_away_is_named_and_the_others_are_shown(ledger, node):
    told: list[str] = []
    gone = node("a")
    gone.server.stop()
    ledger.states["a"] = "gone"
    node("b").print("second\n", attempt=2)
    ledger.row = replace(JOB, history=[event("a")])
    remains = Remains(ledger, "j", told.append)

    lines = [line.text for line in remains.lines()]

    assert lines == ["second"]
    [line] = told
    assert line.startswith("node a (gone) does not answer at 127.0.0.1 port ")
    assert list(remains.away) == ["a"]


def test_a_job_raises_what_it_could_not_read_after_what_it_could(ledger, node):
    node("b").print("second\n", attempt=2)
    ledger.row = replace(JOB, history=[event("a")])
    lines = Job(ledger, "j").logs()

    first = next(lines)
    with pytest.raises(FilesAway, match=r"node a \(forgotten\) serves no files"):
        next(lines)

    assert first == "second"


def test_a_loopback_of_another_machine_is_never_asked_and_says_what_to_set(ledger, liar):
    ledger.doors["b"] = json.dumps({**json.loads(ledger.doors["b"]), "place": "another boot net:[1]"})
    ledger.states["b"] = "up"
    told: list[str] = []

    lines = list(Remains(ledger, "j", told.append).lines())

    assert lines == []
    assert told == [
        "node b serves its files on its own machine only: start it with --http auto (JETQ_HTTP=auto), or ask there"
    ]


def test_following_goes_on_over_a_move_and_an_outage(ledger, node):
    first, second = node("a"), node("b")
    first.print("one\n")
    ledger.row = replace(JOB, state="RUNNING", nodes=["a"])
    looks = iter(range(100))

    def go_on(now: Ledger) -> None:
        look = next(looks)
        if look == 1:
            [log] = first.folders.folder("j").iterdir()
            log.write_text("one\nmore, half a li")
        elif look == 2:
            now.row = replace(JOB, state="QUEUED", nodes=[], started_at=None, history=[event("a")])
            now.outages = 2
        elif look == 3:
            second.print("two\n", attempt=2)
            now.row = replace(JOB, history=[event("a")])

    ledger.then = go_on

    lines = [(line.node, line.text) for line in Remains(ledger, "j").lines(follow=True)]

    assert lines == [("a", "one"), ("a", "more, half a li"), ("b", "two")]


def test_without_following_an_outage_is_told_at_once(ledger):
    ledger.outages = 1

    with pytest.raises(BrokerDown):
        list(Remains(ledger, "j").lines())


def test_an_unknown_job_is_told(ledger):
    ledger.row = None

    with pytest.raises(NoSuchJob):
        Remains(ledger, "j").files()


def test_a_node_that_never_began_the_job_is_not_asked(ledger):
    row = replace(JOB, history=[event("x", ran=False), event("a"), event("b"), event("a")], started_at=None)

    assert ran_on(row) == ["b", "a"]
    assert ran_on(replace(row, nodes=["c"], started_at=1.0)) == ["b", "a", "c"]
    assert ran_on(replace(row, history=[event("a b"), event("c")])) == ["a", "b", "c"]


def test_files_of_the_last_node_lie_in_the_folder_those_of_others_in_theirs(ledger, node, tmp_path):
    node("a").leave("x.txt", "debris")
    node("b").leave("x.txt", "result")
    ledger.row = replace(JOB, history=[event("a")])

    found = Job(ledger, "j").files(tmp_path / "out")

    assert [(row.node, row.file.name, row.got) for row in found] == [
        ("a", "x.txt", tmp_path / "out" / "a" / "x.txt"),
        ("b", "x.txt", tmp_path / "out" / "x.txt"),
    ]
    assert [row.got.read_text() for row in found] == ["debris", "result"]
    assert Job(ledger, "j").files()[1].got is None


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "", ".", "a//b", "a/\0"])
def test_a_name_that_leads_out_is_refused_on_this_side_too(ledger, liar, tmp_path, name):
    liar.answers["/jobs/j/files"] = json.dumps([{"name": name, "size_bytes": 4, "modified_at": 1.0}]).encode()

    with pytest.raises(FilesAway, match="leads out"):
        list(Remains(ledger, "j").get(tmp_path / "out"))

    assert not list(tmp_path.rglob("evil"))


def test_a_link_in_the_target_folder_is_not_followed_out(ledger, node, tmp_path):
    node("b").leave("deep/x", "x")
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "deep").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="by a link"):
        list(Remains(ledger, "j").get(tmp_path / "out"))

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced_not_written_through(ledger, node, tmp_path):
    node("b").leave("x", "new")
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out" / "x").symlink_to(tmp_path / "precious")

    list(Remains(ledger, "j").get(tmp_path / "out"))

    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "out" / "x").read_text() == "new"


def test_a_folder_that_cannot_be_written_is_one_line(ledger, node, tmp_path):
    node("b").leave("x", "x")
    (tmp_path / "out").write_text("a file")

    with pytest.raises(UsageError, match="cannot write"):
        list(Remains(ledger, "j").get(tmp_path / "out"))


def test_a_stream_that_moved_has_files_on_all_nodes_that_had_it(ledger, node, tmp_path):
    for name in ("a", "b", "c", "d"):
        node(name).leave("results-00000001-20261130T120000Z.jsonl", f'{{"on":"{name}"}}\n')
    moves = [{"at": 1.0, "what": "start", "node": name, "why": "x", "ran": True} for name in ("a", "b", "a", "c")]
    dropped = {"at": 2.0, "what": "drop", "node": "d", "why": "no frame for 20 s"}
    ledger.row = replace(JOB, kind="stream", state="RUNNING", nodes=["c", "d"], history=[*moves, dropped])

    found = list(Remains(ledger, "j").get(tmp_path / "out"))

    assert ran_on(ledger.row) == ["b", "a", "d", "c"]
    assert {row.node: row.got.parent for row in found} == {
        **{name: tmp_path / "out" / name for name in ("a", "b", "d")},
        "c": tmp_path / "out",
    }
    assert (tmp_path / "out" / "results-00000001-20261130T120000Z.jsonl").read_text() == '{"on":"c"}\n'
    assert ran_on(replace(ledger.row, nodes=[], started_at=None, state="QUEUED"))[-1] == "d"


def test_a_file_that_grows_is_copied_as_it_was_at_one_moment(ledger, node, tmp_path, wait_until):
    stream = node("b")
    stream.leave("lines", "")
    path = stream.folders.files("j") / "lines"
    over, count = threading.Event(), 0

    def grow() -> None:
        nonlocal count
        with path.open("ab", buffering=0) as out:
            while not over.is_set():
                count += 1
                out.write(b"%08d\n" % count)

    writer = threading.Thread(target=grow)
    writer.start()
    wait_until(lambda: count > 1000)
    try:
        [got] = Remains(ledger, "j").get(tmp_path / "out")
    finally:
        over.set()
        writer.join()

    lines = got.got.read_bytes().split(b"\n")
    assert lines[:-1] == [b"%08d" % number for number in range(1, len(lines))]
    assert len(lines) > 1000


def test_a_file_that_goes_meanwhile_is_told_and_is_no_fault_of_the_node(ledger, node, tmp_path, monkeypatch):
    stream = node("b")
    for name in ("1", "2", "3"):
        stream.leave(name, name)
    told: list[str] = []
    remains = Remains(ledger, "j", told.append)
    copied = remains.get(tmp_path / "out")
    first = next(copied)
    (stream.folders.files("j") / "2").unlink()

    assert [first.file.name, *(row.file.name for row in copied)] == ["1", "3"]
    assert told == ["2 is not on node b any more"]
    assert remains.away == {}


def test_only_a_stream_that_runs_can_be_looked_at(ledger, node):
    node("b")
    with pytest.raises(UsageError, match="only a stream can be looked at, and j is a task"):
        Remains(ledger, "j").preview()

    ledger.row = replace(JOB, kind="stream", state="QUEUED", nodes=[], reason="no node has room")
    with pytest.raises(FilesAway, match="there is nothing to see of j: no node has room"):
        Remains(ledger, "j").preview()

    ledger.row = replace(JOB, kind="stream", state="RUNNING", nodes=["b", "x"])
    with pytest.raises(FilesAway, match=r"node b shows nothing of that stream: it .*; node x serves no files"):
        Remains(ledger, "j").preview()


def test_a_preview_comes_from_the_node_that_has_the_stream(ledger, node, liar):
    node("a")
    liar.answers["/jobs/j/preview?frame=1"] = b"a picture"
    ledger.row = replace(JOB, kind="stream", state="RUNNING", nodes=["a", "b"])

    assert Remains(ledger, "j").preview() == ("b", b"a picture")


@pytest.mark.parametrize("body", [b"", b"no json", b'{"a": 1}', b"[1]", b'[{"name": 3}]'])
def test_an_answer_that_makes_no_sense_is_told(ledger, liar, body):
    liar.answers["/jobs/j/files"] = body
    told: list[str] = []

    assert Remains(ledger, "j", told.append).files() == []
    assert "makes no sense" in told[0]
