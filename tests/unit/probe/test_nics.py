"""In which order a machine names its addresses."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import psutil
import pytest

from jetq.probe import nics


@pytest.fixture
def machine(monkeypatch):
    """Give the candidates of a machine with such interfaces; ``_`` stands for a dash, ``__`` for an alias's colon."""

    def look(towards: str = "", down: tuple[str, ...] = (), **interfaces: list[tuple[str, str | None]]) -> list[str]:
        found = {
            name.replace("_", "-"): [
                SimpleNamespace(family=socket.AF_INET6 if ":" in one else socket.AF_INET, address=one, netmask=mask)
                for one, mask in entries
            ]
            for name, entries in interfaces.items()
        }
        found = {name.replace("--", ":"): entries for name, entries in found.items()}
        monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)
        names = {name.partition(":")[0] for name in found}
        monkeypatch.setattr(psutil, "net_if_stats", lambda: {n: SimpleNamespace(isup=n not in down) for n in names})
        monkeypatch.setattr(nics, "address_towards", lambda url: url)
        return [f"{nic.interface} {nic.address} {nic.network}" for nic in nics.candidates(towards)]

    return look


LAN, SIX = "255.255.255.0", "ffff:ffff:ffff:ffff::"


def test_a_jetson_names_its_cable_first_and_its_bridges_last(machine):
    assert machine(
        lo=[("127.0.0.1", "255.0.0.0"), ("::1", None)],
        docker0=[("172.17.0.1", "255.255.0.0")],
        l4tbr0=[("192.168.55.1", LAN), ("fe80::1%l4tbr0", SIX)],
        wlan0=[("192.168.1.7", LAN)],
        eno1=[("10.0.0.7", LAN), ("fd00::7", SIX), ("fe80::7%eno1", SIX)],
        usb0=[("169.254.9.9", "255.255.0.0")],
        tailscale0=[("100.64.0.7", "255.255.255.255")],
    ) == [
        "eno1 10.0.0.7 10.0.0.0/24",
        "wlan0 192.168.1.7 192.168.1.0/24",
        "tailscale0 100.64.0.7 100.64.0.7/32",
        "docker0 172.17.0.1 172.17.0.0/16",
        "l4tbr0 192.168.55.1 192.168.55.0/24",
        "eno1 fd00::7 fd00::/64",
    ]


def test_what_faces_the_broker_comes_first_unless_it_is_inside_the_machine(machine):
    interfaces = {"eth0": [("10.0.0.7", LAN)], "wlan0": [("192.168.1.7", LAN)], "docker0": [("172.17.0.1", LAN)]}
    interfaces |= {"br_lan": [("10.9.0.1", LAN)]}

    assert machine("192.168.1.7", **interfaces)[0].startswith("wlan0")
    assert machine("10.9.0.1", **interfaces)[0].startswith("br-lan")
    assert machine("172.17.0.1", **interfaces)[-1].startswith("docker0")
    assert machine("127.0.0.1", **interfaces)[0].startswith("eth0")


def test_only_interfaces_that_are_up_count(machine):
    assert machine(eth0=[("10.0.0.7", LAN)], eth1=[("10.1.0.7", LAN)], down=("eth0",)) == ["eth1 10.1.0.7 10.1.0.0/24"]


def test_an_alias_has_the_name_of_its_interface_and_comes_behind_its_first_address(machine):
    found = machine(eth0=[("10.0.0.7", LAN), ("10.2.0.7", LAN)], eth0__1=[("10.3.0.7", LAN)], eth1=[("10.4.0.7", LAN)])

    assert found == [
        "eth0 10.0.0.7 10.0.0.0/24",
        "eth1 10.4.0.7 10.4.0.0/24",
        "eth0 10.2.0.7 10.2.0.0/24",
        "eth0 10.3.0.7 10.3.0.0/24",
    ]


def test_a_machine_with_very_many_addresses_names_the_best(machine):
    found = machine(eth0=[(f"10.0.0.{n}", LAN) for n in range(1, 30)], docker0=[("172.17.0.1", LAN)])

    assert found == [f"eth0 10.0.0.{n} 10.0.0.0/24" for n in range(1, 9)]


def test_a_broker_whose_name_is_not_known_changes_nothing():
    assert nics.candidates("redis://no-such-host.invalid:6379") == nics.candidates()
    assert nics.candidates("unix:///run/redis.sock") == nics.candidates()
