"""The HTTP port gives what jobs have left, to those who know the token, and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from jetq.errors import UsageError
from jetq.service.jobfiles.door import Door
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import LogFile, run_logs
from jetq.service.jobfiles.server import MOST_REQUESTS, FileServer, bind_address, own_address, seen_address
from tests.unit.service.jobfiles.conftest import BROKER


@pytest.fixture
def folders(folders: JobFolders, tmp_path: Path) -> JobFolders:
    folders.files("j").mkdir(parents=True)
    (folders.files("j") / "a b#?.txt").write_text("0123456789")
    (folders.files("j") / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    LogFile(folders.folder("j"), 1, limit_bytes=4096).write(b"one\ntwo\n")
    return folders


@pytest.fixture
def ask(server: FileServer) -> Callable[..., tuple[int, bytes, dict[str, str]]]:
    def ask(path: str, *, token: str | None = None, method: str = "GET", **headers: str):
        parts = urlsplit(server.door.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
        asked = {"Authorization": f"Bearer {server.door.token if token is None else token}", **headers}
        connection.request(method, path, headers=asked)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body, dict(answer.getheaders())

    return ask


@pytest.mark.parametrize("token", ["", "wrong", "Bearer", "\xe4"])
def test_without_the_token_nothing_is_given(ask, token):
    for path in ("/jobs/j/files", "/jobs/j/log", "/jobs/j/files/a%20b%23%3F.txt", "/", "/jobs/none/files"):
        status, body, _ = ask(path, token=token)
        assert (status, body) == (401, b"")


def test_lists_name_files_and_runs(ask):
    files = json.loads(ask("/jobs/j/files")[1])
    runs = json.loads(ask("/jobs/j/log")[1])

    assert [(row["name"], row["size_bytes"]) for row in files] == [("a b#?.txt", 10)]
    assert [(row["attempt"], row["first"], row["end"]) for row in runs] == [(1, 0, 8)]
    assert json.loads(ask("/jobs/unknown/files")[1]) == json.loads(ask("/jobs/unknown/log")[1]) == []


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [(None, 200, b"0123456789"), ("bytes=2-4", 206, b"234"), ("bytes=-3", 206, b"789"), ("bytes=99-", 416, b"")],
)
def test_a_file_is_given_whole_or_in_part(ask, asked, status, body):
    headers = {} if asked is None else {"Range": asked}

    assert ask(f"/jobs/j/files/{quote('a b#?.txt')}", **headers)[:2] == (status, body)


def test_a_file_that_is_made_shorter_while_it_is_sent_ends_the_answer_at_once(server, folders):
    path = folders.files("j") / "large"
    with path.open("wb") as out:
        out.truncate(256 * 1024**2)
    parts = urlsplit(server.door.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request("GET", "/jobs/j/files/large", headers={"Authorization": f"Bearer {server.door.token}"})
    answer = connection.getresponse()
    answer.read(1024**2)
    os.truncate(path, 0)

    began_s = time.monotonic()
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    connection.close()
    assert time.monotonic() - began_s < 5


def test_a_log_is_given_from_an_offset(ask, folders):
    run = run_logs(folders.folder("j"))[0].run

    whole, later, past = (ask(f"/jobs/j/log/{run}?offset={offset}") for offset in (0, 4, 99))

    assert (whole[1], whole[2]["X-Jetq-Offset"]) == (b"one\ntwo\n", "0")
    assert (later[1], later[2]["X-Jetq-Offset"]) == (b"two\n", "4")
    assert past[:2] == (200, b"")
    assert ask(f"/jobs/j/log/{run}?offset=x")[1] == b"one\ntwo\n"
    assert ask("/jobs/j/log/..%2F..%2Fsecret")[:2] == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/jobs", "/jobs/", "/jobs/j", "/jobs//files/x", "/secret", "/jobs/j/other", "/jobs/j/log/a/b"),
        *("/jobs/j/files/link", "/jobs/j/files/../files/a%20b%23%3F.txt", "/jobs/j/files/..%2F..%2F..%2Fsecret"),
        *("/jobs/j/files/%2Fetc%2Fpasswd", "/jobs/j/files/", "/jobs/j/files/%00", "/jobs/../../secret/files/x"),
        *("/jobs/..%2F..%2F/files/secret", "/jobs/%2E%2E/files/secret", "/jobs/j/files/no", "/jobs/j/files/%ff"),
    ],
)
def test_no_path_leads_out(ask, path):
    assert ask(path)[:2] == (404, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_it_is_read_only(ask, method):
    assert ask("/jobs/j/files", method=method)[0] == 501


def test_connections_that_stand_still_do_not_shut_others_out(server, ask):
    parts = urlsplit(server.door.url)
    held = [socket.create_connection((parts.hostname, parts.port)) for _ in range(MOST_REQUESTS * 2)]
    turned_away = held[-1].recv(1)
    for one in held:
        one.close()

    assert turned_away == b""
    assert ask("/jobs/j/files")[0] == 200


def test_every_run_has_another_token(folders):
    first, second = FileServer(folders, None, BROKER), FileServer(folders, None, BROKER)
    first.stop()
    second.stop()

    assert first.door.token != second.door.token
    assert len(first.door.token) >= 32
    assert Door.parse(first.door.as_text()) == first.door


@pytest.mark.parametrize(
    ("asked", "address", "port"),
    [
        (None, "127.0.0.1", 0),
        ("auto", "127.0.0.1", 0),
        ("auto:8099", "127.0.0.1", 8099),
        ("127.0.0.2", "127.0.0.2", 0),
        ("127.0.0.2:8099", "127.0.0.2", 8099),
        ("0.0.0.0", "0.0.0.0", 0),
    ],
)
def test_where_to_listen_is_said_in_few_words(asked, address, port):
    assert bind_address(asked, BROKER) == (address, port)


@pytest.mark.parametrize("asked", ["203.0.113.7", "auto:x", "127.0.0.1:x", "127.0.0.1:99999", "no.such.host.invalid"])
def test_an_address_that_cannot_be_is_one_line(folders, asked):
    with pytest.raises(UsageError, match="--http"):
        FileServer(folders, asked, BROKER)


def test_a_port_in_use_says_what_to_do(folders):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match="leave the port out"):
            FileServer(folders, f"127.0.0.1:{port}", BROKER)


def test_all_addresses_are_seen_as_one_that_others_reach():
    assert seen_address("127.0.0.2", BROKER) == "127.0.0.2"
    assert seen_address("0.0.0.0", BROKER) != "0.0.0.0"


@pytest.mark.parametrize(
    ("asked", "broker", "address"),
    [
        (None, BROKER, "127.0.0.1"),
        (None, "unix:///tmp/broker.sock", "127.0.0.1"),
        ("127.0.0.2", BROKER, "127.0.0.1"),  # files for this machine alone
        ("auto", BROKER, "127.0.0.1"),
        (None, "redis://no.such.host.invalid:6379/0", ""),
        ("auto", "redis://no.such.host.invalid:6379/0", ""),
    ],
)
def test_a_node_says_at_which_address_others_reach_it(asked, broker, address):
    assert own_address(asked, broker) == address


def test_an_address_that_is_reached_from_elsewhere_comes_before_the_way_to_the_broker():
    outside = seen_address("0.0.0.0", BROKER)

    assert own_address("0.0.0.0", BROKER) == outside
    assert own_address(outside, BROKER) == outside
