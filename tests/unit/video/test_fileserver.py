"""The file server gives the files it was told, to those who know the secret, and nothing else."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jetq.errors import UsageError
from jetq.video.chunks import plan
from jetq.video.fileserver import FileServer
from jetq.video.source import Reader, probe


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "a film #1.mp4"
    path.write_bytes(bytes(range(256)) * 40)
    return path


@pytest.fixture
def server(film: Path) -> Iterator[FileServer]:
    with FileServer([film]) as running:
        yield running


def ask(url: str, *, path: str | None = None, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request(method, parts.path if path is None else path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def test_a_whole_file_is_given(server: FileServer, film: Path):
    status, body, headers = ask(server.url(film))

    assert (status, body) == (200, film.read_bytes())
    assert headers["Accept-Ranges"] == "bytes"


@pytest.mark.parametrize(
    ("asked", "first", "past"), [("bytes=0-9", 0, 10), ("bytes=10000-", 10000, 10240), ("bytes=-40", 10200, 10240)]
)
def test_a_part_is_given(server: FileServer, film: Path, asked: str, first: int, past: int):
    status, body, headers = ask(server.url(film), Range=asked)

    assert (status, body) == (206, film.read_bytes()[first:past])
    assert headers["Content-Range"] == f"bytes {first}-{past - 1}/10240"


def test_a_part_past_the_end_is_refused(server: FileServer, film: Path):
    status, body, headers = ask(server.url(film), Range="bytes=10240-")

    assert (status, body, headers["Content-Range"]) == (416, b"", "bytes */10240")


def test_head_gives_the_length_alone(server: FileServer, film: Path):
    status, body, headers = ask(server.url(film), method="HEAD")

    assert (status, body, headers["Content-Length"]) == (200, b"", "10240")


def test_nothing_else_is_given(server: FileServer, film: Path):
    own = urlsplit(server.url(film)).path
    secret = own.split("/")[1]
    other = film.with_name("other.mp4")
    other.write_bytes(b"private")

    wrong = ["/", f"/{secret}/", f"/{secret}/0/other.mp4", f"/{secret}/0/../other.mp4", f"/{secret}/0/%2e%2e/other.mp4"]
    wrong += [str(other), own.replace(secret, "A" * 32), own + "/", own + "?x", "/etc/passwd", "//etc/passwd"]
    assert {path: ask(server.url(film), path=path)[0] for path in wrong} == dict.fromkeys(wrong, 404)


def test_a_file_cannot_be_written(server: FileServer, film: Path):
    assert ask(server.url(film), method="PUT")[0] == 501


def test_every_run_has_a_secret_of_its_own(film: Path):
    with FileServer([film]) as one, FileServer([film]) as two:
        assert urlsplit(one.url(film)).path != urlsplit(two.url(film)).path


def test_a_file_that_is_removed_meanwhile_is_gone(server: FileServer, film: Path):
    film.unlink()

    assert ask(server.url(film))[0] == 404


def test_nothing_listens_any_more_after_the_run(film: Path):
    with FileServer([film]) as server:
        url = server.url(film)

    with pytest.raises(OSError):
        ask(url)


@pytest.mark.parametrize("name", ["bikes", "bigbuckbunny", "carphone_pristine", "carphone_distorted"])
def test_a_video_is_read_through_it_to_its_last_frame(clips: Path, name: str):
    path = clips / f"{name}.mp4"
    index = probe(path).index
    with FileServer([path]) as server, Reader(server.url(path)) as reader:
        frames = [frame.index for frame in reader.frames(plan(index, chunk_frames=50)[-1])]

        assert frames[-1] == index.n_frames - 1
        assert reader.damaged == 0
        assert server.sent_bytes > 0


def test_an_ipv6_address_is_written_in_brackets(film: Path):
    with FileServer([film], host="::1") as server:
        assert server.url(film).startswith("http://[::1]:")
        assert ask(server.url(film), Range="bytes=0-3")[1] == bytes(range(4))


def test_an_address_of_another_machine_is_refused(film: Path):
    with pytest.raises(UsageError, match="no address of this machine"):
        FileServer([film], host="192.0.2.1")
