"""The kept connection: a real broker that is frozen, killed, busy and started again, behind each kind of address."""

from __future__ import annotations

import socket
import subprocess
import threading

import pytest

from jetq.broker.server import find_binary
from jetq.clock import boot_s
from jetq.model.address import Address
from jetq.service.reach import Reach

#: A look each so often, as a node with JETQ_DEAD_S=1 takes them (s).
EVERY_S = 0.1


@pytest.fixture
def look(wait_until):
    """Give ``look(reach, condition)``: look until the answer fulfils the condition, and return how old it is."""
    pause = threading.Event()

    def until(reach: Reach, condition, within_s: float = 5.0) -> float | None:
        seen: list[float | None] = []

        def looks() -> bool:
            pause.wait(EVERY_S)
            seen[:] = [reach.look()]
            return bool(condition(seen[0]))

        wait_until(looks, within_s=within_s, what="its answer")
        return None if seen[0] is None else boot_s() - seen[0]

    return until


@pytest.fixture
def reach_of():
    made: list[Reach] = []

    def make(url: str) -> Reach:
        made.append(Reach(Address.parse(url), within_s=0.5, clock=boot_s))
        return made[-1]

    yield make
    for reach in made:
        reach.close()


def is_proof(at_s: float | None) -> bool:
    return at_s is not None


def is_none(at_s: float | None) -> bool:
    return at_s is None


def test_a_broker_that_answers_is_no_proof(reach_of, redis_url):
    reach = reach_of(redis_url)
    pause = threading.Event()

    assert [(pause.wait(EVERY_S), reach.look())[1] for _ in range(10)] == [None] * 10


def test_a_frozen_broker_is_down_until_it_answers_again(reach_of, start_broker, look):
    server = start_broker()
    reach = reach_of(server.url)
    reach.look()

    server.freeze()
    age_s = look(reach, is_proof)
    later_s = look(reach, is_proof)
    server.thaw()

    assert age_s < 1 and later_s < 1
    look(reach, is_none)


def test_a_killed_broker_is_down_until_it_is_back(reach_of, start_broker, look):
    server = start_broker()
    reach = reach_of(server.url)
    reach.look()

    server.kill()
    assert look(reach, is_proof) < 1
    server.start()

    look(reach, is_none)


@pytest.mark.parametrize(("password", "written"), [("secret", "secret"), ("se:c@ret", "se%3Ac%40ret")])
def test_a_password_is_given_so_that_a_busy_broker_can_say_so(reach_of, start_broker, look, password, written):
    server = start_broker("--requirepass", password, "--busy-reply-threshold", "50")
    url = f"redis://:{written}@127.0.0.1:{server.port}/0"
    login = Address.parse(url).endpoint.login()
    reach = reach_of(url)
    reach.look()
    with socket.create_connection(("127.0.0.1", server.port), 1) as busy:
        busy.sendall(login + b'EVAL "while true do end" 0\r\n')

        assert look(reach, is_proof) < 1

        with socket.create_connection(("127.0.0.1", server.port), 1) as other:
            other.sendall(login + b"SCRIPT KILL\r\n")
            look(reach, is_none)


def test_a_closed_connection_to_a_broker_that_serves_is_no_proof(reach_of, start_broker, look):
    server = start_broker()
    reach = reach_of(server.url)
    reach.look()
    with server.client() as client:
        client.execute_command("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal")

    pause = threading.Event()
    assert [(pause.wait(EVERY_S), reach.look())[1] for _ in range(5)] == [None] * 5


def test_a_machine_that_does_not_answer_is_no_proof(reach_of):
    with socket.socket() as full:  # its queue takes no more: like a machine that is off
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host, port = full.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex((host, port))
        reach = reach_of(f"redis://{host}:{port}/0")

        assert [reach.look() for _ in range(2)] == [None, None]
        for one in waiting:
            one.close()


def test_a_broker_behind_a_unix_socket_is_never_cut_off(reach_of):
    reach = reach_of("unix:///nowhere/broker.sock")

    assert abs(reach.look() - boot_s()) < 1


def test_of_a_broker_with_tls_only_the_machine_is_asked(reach_of, start_broker, look):
    server = start_broker()
    reach = reach_of(f"rediss://127.0.0.1:{server.port}/0")

    assert look(reach, is_proof) < 2
    server.kill()

    assert look(reach, is_proof) < 1


def test_sentinels_are_asked_where_the_broker_is(reach_of, start_broker, look, tmp_path, wait_until):
    server = start_broker()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = tmp_path / "sentinel.conf"
    conf.write_text(f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor yard 127.0.0.1 {server.port} 1\n")
    with subprocess.Popen([find_binary(), str(conf), "--sentinel"], stdout=subprocess.DEVNULL) as sentinel:
        reach = reach_of(f"sentinel://127.0.0.1:{port}/0?master_name=yard")
        wait_until(lambda: (reach.look(), reach._socket)[1] is not None, what="the sentinel's answer")
        look(reach, is_none)

        server.freeze()
        age_s = look(reach, is_proof)
        server.thaw()
        sentinel.kill()

    assert age_s < 1
