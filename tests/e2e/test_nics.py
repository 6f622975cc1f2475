"""In which order a machine (a network namespace with real interfaces) names its addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks._host import ip
from jetq.model.nic import Nic

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import json, sys
sys.path.insert(0, {root!r})
from jetq.probe.nics import candidates
print(json.dumps([nic.as_json() for nic in candidates(sys.argv[1])]))
"""


class Machine:
    """A network namespace; each interface is an end of a cable whose other end lies about in it."""

    def __init__(self) -> None:
        self.name = f"jetq-nics{os.getpid()}"
        self._ends = 0

    def add(self, interface: str, *addresses: str) -> None:
        """Plug in an interface. An address is what ``ip address add`` takes."""
        self._ends += 1
        self.ip("link", "add", interface, "type", "veth", "peer", "name", f"end{self._ends}")
        for address in addresses:
            nodad = ["nodad"] if ":" in address.split()[0] else []
            self.ip("address", "add", *address.split(), *nodad, "dev", interface)
        for end in (interface, f"end{self._ends}"):
            self.ip("link", "set", end, "up")

    def ip(self, *words: str) -> None:
        ip("-n", self.name, *words)

    def nics(self, towards: str = "", *, among: str = "") -> list[Nic]:
        """Ask it, until ``among`` is there: an interface has a carrier a moment after it is up."""
        end_s = time.monotonic() + 10
        while True:
            argv = [sys.executable, "-c", LOOK.format(root=str(ROOT)), towards]
            said = subprocess.run(["ip", "netns", "exec", self.name, *argv], check=True, capture_output=True, text=True)
            found = [Nic(**entry) for entry in json.loads(said.stdout)]
            if not among or among in [nic.interface for nic in found]:
                return found
            assert time.monotonic() < end_s, found


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    subprocess.run(["ip", "netns", "delete", made.name], check=False, capture_output=True)  # of a run that was killed
    ip("netns", "add", made.name)
    try:
        made.ip("link", "set", "lo", "up")
        yield made
    finally:
        ip("netns", "delete", made.name)


def told(found: list[Nic]) -> list[str]:
    return [f"{nic.interface} {nic.address} {nic.network}{'' if nic.first else ' (not first)'}" for nic in found]


def test_a_jetson_names_its_cable_first_and_its_bridges_last(machine):
    machine.add("docker0", "172.17.0.1/16")
    machine.add("l4tbr0", "192.168.55.1/24")
    machine.add("br-0123456789ab", "172.18.0.1/16")
    machine.add("tailscale0", "100.64.0.7/32")
    machine.add("usb0", "169.254.9.9/16")
    machine.add("wlan0", "192.168.1.7/24")
    machine.add("eno1", "10.0.0.7/24", "fd00::7/64", "2001:db8::7/64")

    found = machine.nics(among="eno1")

    assert told(found)[:3] == [
        "eno1 10.0.0.7 10.0.0.0/24",
        "wlan0 192.168.1.7 192.168.1.0/24",
        "tailscale0 100.64.0.7 100.64.0.7/32",
    ]
    assert [nic.interface for nic in found[3:]] == ["docker0", "l4tbr0", "br-0123456789ab", "eno1", "eno1"]
    assert {line for line in told(found) if "::" in line} == {
        "eno1 fd00::7 fd00::/64 (not first)",
        "eno1 2001:db8::7 2001:db8::/64 (not first)",
    }


def test_what_faces_the_broker_comes_first_unless_it_is_inside_the_machine(machine):
    machine.add("docker0", "172.17.0.1/16")
    machine.add("eth0", "10.0.0.7/24")
    machine.add("br-lan", "10.9.0.1/24")
    machine.add("wlan0", "192.168.1.7/24", "fd01::7/64")
    machine.ip("route", "add", "10.50.0.0/16", "via", "192.168.1.1")

    def first(towards: str) -> str:
        return machine.nics(towards, among="wlan0")[0].interface

    assert first("redis://192.168.1.9:6379") == "wlan0"
    assert first("redis://:secret@10.50.0.1:6379/0") == "wlan0"  # through a router
    assert first("rediss://10.9.0.2:6379") == "br-lan"
    assert first("redis://172.17.0.2:6379") == "eth0"
    assert first("redis://127.0.0.1:6379") == "eth0"
    assert first("redis://no-such-host.invalid:6379") == "eth0"
    assert first("unix:///run/redis.sock") == "eth0"
    assert first("redis://203.0.113.7:6379") == "eth0"  # no route
    assert machine.nics("redis://172.17.0.2:6379")[3].interface == "docker0"


def test_only_interfaces_that_are_up_and_plugged_in_count(machine):
    machine.add("eth0", "10.0.0.7/24")
    machine.add("eth1", "10.1.0.7/24")
    machine.add("eth2", "10.2.0.7/24")
    machine.nics(among="eth2")
    machine.ip("link", "set", "eth0", "down")
    machine.ip("link", "set", "end2", "down")  # eth1 has no carrier

    end_s = time.monotonic() + 10
    while len(found := machine.nics()) > 1 and time.monotonic() < end_s:
        pass

    assert told(found) == ["eth2 10.2.0.7 10.2.0.0/24"]


def test_an_alias_has_the_name_of_its_interface_and_comes_behind_its_first_address(machine):
    machine.add("eth0", "10.0.0.7/24", "10.2.0.7/24", "10.3.0.7/24 label eth0:1", "10.0.0.8/24")
    machine.add("eth1", "10.4.0.7/16")

    assert told(machine.nics(among="eth1")) == [
        "eth0 10.0.0.7 10.0.0.0/24",
        "eth1 10.4.0.7 10.4.0.0/16",
        "eth0 10.2.0.7 10.2.0.0/24 (not first)",
        "eth0 10.0.0.8 10.0.0.0/24 (not first)",
        "eth0 10.3.0.7 10.3.0.0/24 (not first)",
    ]


def test_link_local_addresses_are_no_candidates_and_still_the_first(machine):
    machine.add("eth0", "169.254.7.7/16", "10.0.0.7/24")

    assert told(machine.nics(among="eth0")) == ["eth0 10.0.0.7 10.0.0.0/24 (not first)"]


def test_a_machine_with_very_many_addresses_names_the_best(machine):
    machine.add("docker0", "172.17.0.1/16")
    machine.add("eth0", *(f"10.0.0.{n}/24" for n in range(1, 30)))

    assert [nic.address for nic in machine.nics(among="eth0")] == [f"10.0.0.{n}" for n in range(1, 9)]


def test_a_machine_without_a_cable_has_none(machine):
    assert machine.nics("redis://10.0.0.1:6379") == []
