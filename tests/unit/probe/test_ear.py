"""Ears and who hears them, on this machine's loopback network (127.0.0.0/8 are as many addresses as one likes)."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jetq.probe import ports
from jetq.probe.ear import Ear, Peer, hear


@contextmanager
def stranger(answer: bytes, address: str = "127.0.0.3", *, port: int) -> Iterator[None]:
    """A program that answers with something else, and then says no more; it does not close."""
    with socket.socket() as listener:
        listener.bind((address, port))
        listener.listen()
        kept = []

        def serve() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                kept.append(caller)
                caller.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for caller in kept:
                caller.close()


@pytest.fixture
def ear() -> Iterator[Ear]:
    with Ear() as made:
        yield made


def peer(ear: Ear, *addresses: str, index: int = 1, nonce: str = "") -> Peer:
    return Peer(index, nonce or ear.nonce, ear.port, addresses)


def test_an_ear_is_heard_at_all_its_addresses(ear):
    heard = hear([peer(ear, "127.0.0.2", "::1", "127.0.0.1")], 5)

    assert [voice.address for voice in heard[1]] == ["127.0.0.2", "::1", "127.0.0.1"]
    assert [voice.local for voice in heard[1]] == ["127.0.0.1", "::1", "127.0.0.1"]


def test_another_ear_at_the_same_address_is_not_taken_for_the_peer(ear):
    with Ear() as other:
        assert hear([peer(ear, "127.0.0.1", nonce=other.nonce), peer(ear, "127.0.0.1", index=2)], 0.5)[1] == ()


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_8.9\r\n", b"x" * 100_000, b"0" * 20])
def test_a_stranger_fools_nobody_and_holds_up_nobody(answer):
    port = ports.free_port()
    began_s = time.monotonic()
    with stranger(answer, port=port):
        heard = hear([Peer(1, "a" * 32, port, ("127.0.0.3",))], 0.6)

    assert heard == {1: ()}
    assert time.monotonic() - began_s < 3


def test_addresses_that_lead_nowhere_cost_little_where_the_best_one_answers(ear):
    """10.255.255.0/24 swallows what is sent there, or refuses it: both are fine."""
    began_s = time.monotonic()
    heard = hear([peer(ear, "127.0.0.1", "10.255.255.1", "fd99::1", "203.0.113.9")], 30)

    assert [voice.address for voice in heard[1]] == ["127.0.0.1"]
    assert time.monotonic() - began_s < 5


def test_nobody_to_listen_for_takes_no_time():
    assert hear([], 30) == {}
    assert hear([Peer(4, "a" * 32, 1, ())], 30) == {4: ()}


def test_a_peer_that_is_late_is_heard_within_the_time():
    port, made = ports.free_port(), []
    late = threading.Timer(0.6, lambda: made.append(socket.create_server(("127.0.0.1", port))))
    late.start()
    answering = threading.Thread(target=answer_once, args=(made, late, b"b" * 32 + b"\n"))
    answering.start()

    heard = hear([Peer(1, "b" * 32, port, ("127.0.0.1",))], 20)

    answering.join()
    assert [voice.address for voice in heard[1]] == ["127.0.0.1"]


def answer_once(made: list[socket.socket], late: threading.Timer, said: bytes) -> None:
    late.join()
    with made[0] as listener, listener.accept()[0] as caller:
        caller.sendall(said)


def test_callers_that_never_hang_up_hold_up_nobody(ear):
    idle = [socket.create_connection(("127.0.0.1", ear.port)) for _ in range(200)]
    try:
        assert hear([peer(ear, "127.0.0.1")], 10)[1]
    finally:
        for one in idle:
            one.close()


def test_a_closed_ear_leaves_nothing():
    before = len(os.listdir("/proc/self/fd"))
    ear = Ear()
    hear([peer(ear, "127.0.0.1", "::1")], 5)
    ear.close()

    assert len(os.listdir("/proc/self/fd")) <= before
    assert "ear" not in [thread.name for thread in threading.enumerate()]
    assert hear([peer(ear, "127.0.0.1")], 0.3) == {1: ()}
    ear.close()  # twice is as good as once
