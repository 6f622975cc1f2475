"""Ports that are free on all addresses of this machine."""

from __future__ import annotations

import socket

import pytest

from jetq.errors import JetqError
from jetq.probe import ports


@pytest.fixture
def taken():
    """A port of the loopback address that a program listens on."""
    with socket.create_server(("127.0.0.1", ports.free_port())) as held:
        yield held.getsockname()[1]


def test_a_free_port_can_be_bound_on_any_address():
    port = ports.free_port()

    assert ports.LOW <= port <= ports.HIGH
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::")):
        with socket.socket(family) as made:
            made.bind((address, port))


def test_a_port_that_one_address_uses_is_not_free(taken):
    assert not ports.is_free(taken)
    with pytest.raises(JetqError, match=f"no port from {taken} to {taken} is free"):
        ports.free_port(low=taken, high=taken)


def test_promised_ports_are_left_out():
    low = next(port for port in range(21000, 29000, 7) if ports.is_free(port) and ports.is_free(port + 1))

    assert ports.free_port({low}, low=low, high=low + 1) == low + 1
    assert ports.is_free(low)


def test_ports_that_the_kernel_gives_away_come_last(tmp_path):
    settings = tmp_path / "proc/sys/net/ipv4"
    settings.mkdir(parents=True)
    (settings / "ip_local_port_range").write_text("20000\t29990\n")

    assert ports.free_port(root=tmp_path) > 29990
    assert ports.free_port(range(29991, 30000), root=tmp_path) <= 29990


def test_two_draws_seldom_agree():
    assert len({ports.free_port() for _ in range(5)}) > 1
