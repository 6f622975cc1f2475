"""The probe of a Linux machine: this one, and folders that look like others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jetq.probe import linux
from jetq.probe.linux import LinuxProbe


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_this_machine_can_say_what_it_is():
    machine = LinuxProbe().machine()

    assert machine.identity
    assert 1 <= machine.cores <= (os.cpu_count() or 1)
    assert machine.mem_bytes > 2**20


def test_a_reading_holds_sane_numbers_or_nothing(wait_until):
    probe = LinuxProbe()
    probe.read()
    probe.refresh()

    reading = wait_until(lambda: (r := probe.read()).metrics.cpu_busy is not None and r, what="the first CPU share")

    metrics = reading.metrics
    assert 0.0 <= metrics.cpu_busy <= 1.0
    assert 0 < metrics.mem_used_bytes < metrics.mem_total_bytes
    assert metrics.disk_free_bytes > 0
    assert metrics.load1 >= 0
    assert metrics.gpu_busy is None


def test_processors_whose_times_stand_still_are_unknown_after_some_seconds(monkeypatch):
    now_s = [1000.0]
    monkeypatch.setattr(linux.time, "monotonic", lambda: now_s[0])
    times = linux.psutil.cpu_times()
    probe = LinuxProbe()
    monkeypatch.setattr(linux.psutil, "cpu_times", lambda: times._replace(user=times.user - 1))
    probe.read()
    monkeypatch.setattr(linux.psutil, "cpu_times", lambda: times)

    assert probe.read().metrics.cpu_busy == 1.0
    now_s[0] += linux.LONGEST_S + 0.1
    assert probe.read().metrics.cpu_busy is None


@pytest.mark.parametrize(
    "error", [FileNotFoundError("/proc/stat"), ValueError("no number"), IndexError(), KeyError("x")]
)
def test_what_cannot_be_read_is_unknown_and_the_rest_is_told(monkeypatch, error):
    def broken():
        raise error

    monkeypatch.setattr(linux.psutil, "cpu_times", broken)
    monkeypatch.setattr(linux.psutil, "virtual_memory", broken)

    metrics = LinuxProbe().read().metrics

    assert LinuxProbe().machine().mem_bytes > 2**20
    assert (metrics.cpu_busy, metrics.mem_used_bytes, metrics.mem_total_bytes) == (None, None, None)
    assert metrics.load1 is not None


def test_what_jetqs_own_processes_use_is_a_share_of_the_machine(wait_until):
    probe = LinuxProbe()

    def share() -> float | None:
        sum(range(200_000))
        probe.refresh()
        return probe.read().own_cpu

    wait_until(share, what="our own share")
    assert 0.0 < probe.read().own_cpu <= 1.0


def test_a_board_is_known_by_its_serial_and_model(tmp_path):
    write(tmp_path, "proc/device-tree/serial-number", "1421023\0")
    write(tmp_path, "proc/device-tree/model", "NVIDIA Jetson Orin NX\0")

    machine = LinuxProbe(root=tmp_path).machine()

    assert (machine.identity, machine.board) == ("1421023", "NVIDIA Jetson Orin NX")


def test_a_pc_is_known_by_its_first_real_card(tmp_path):
    write(tmp_path, "sys/class/net/lo/address", "00:00:00:00:00:00\n")
    write(tmp_path, "sys/class/net/docker0/address", "02:42:00:00:00:01\n")
    write(tmp_path, "sys/class/net/eth1/address", "aa:00:00:00:00:02\n")
    write(tmp_path, "sys/class/net/eth1/device/vendor", "x")

    machine = LinuxProbe(root=tmp_path).machine()

    assert (machine.identity, machine.board) == ("aa:00:00:00:00:02", "pc")


def test_a_containers_limit_counts_as_its_memory(tmp_path):
    write(tmp_path, "sys/fs/cgroup/memory.max", "1048576\n")
    assert LinuxProbe(root=tmp_path).machine().mem_bytes == 1048576

    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    assert LinuxProbe(root=tmp_path).machine().mem_bytes > 1048576


def test_a_disk_that_is_not_there_is_unknown(tmp_path):
    probe = LinuxProbe(tmp_path / "gone")
    probe.refresh()

    assert probe.read().metrics.disk_free_bytes is None
