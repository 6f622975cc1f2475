"""The probe of any Linux machine: ``/proc`` and ``/sys``, through psutil where it knows them better."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from jetq import process
from jetq.model.beat import Metrics
from jetq.probe.base import Machine, Reading

#: What an unknown hardware model is called.
UNKNOWN_BOARD = "pc"
#: Two looks at the processors closer than this say nothing (s).
SHORTEST_S = 0.2
#: The processors' times grow on a machine that lives, also where it is idle; a share older than this is none (s).
LONGEST_S = 5.0

T = TypeVar("T")


class LinuxProbe:
    """Reads this machine. GPU and power stay unknown: a board's own probe knows them."""

    def __init__(self, folder: Path = Path("/"), *, root: Path = Path("/")) -> None:
        """``folder``: whose disk counts; ``root``: holds proc and sys."""
        self._folder = folder
        self._root = root
        self._times: tuple[float, float] | None = None  # busy, all (CPU seconds)
        self._grew_at_s = time.monotonic()
        self._busy: float | None = None
        self._own_times: dict[int, float] = {}  # pid -> CPU seconds
        self._own_at_s = -SHORTEST_S
        self._own: float | None = None
        self._temp_c: float | None = None
        self._disk_free: int | None = None

    def machine(self) -> Machine:
        """Return what the machine is."""
        return Machine(
            identity=self._identity(),
            board=self._text("proc/device-tree/model") or UNKNOWN_BOARD,
            arch=platform.machine(),
            cores=len(os.sched_getaffinity(0)),
            mem_bytes=self._mem_limit(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
        )

    def read(self) -> Reading:
        """Return how it is right now."""
        memory = _read(psutil.virtual_memory)
        load = _read(os.getloadavg)
        metrics = Metrics(
            cpu_busy=_read(self._cpu_busy),
            mem_used_bytes=memory and memory.total - memory.available,
            mem_total_bytes=memory and memory.total,
            disk_free_bytes=self._disk_free,
            temp_c=self._temp_c,
            load1=load and load[0],
        )
        return Reading(metrics, self._own)

    def refresh(self) -> None:
        """Read disk, sensors and the processors' time of the node's own processes."""
        self._disk_free = self._read_disk()
        self._temp_c = _read(hottest_c)
        self._own = self._own_cpu()

    def _cpu_busy(self) -> float | None:
        now = psutil.cpu_times()
        all_s = sum(now) - getattr(now, "guest", 0.0) - getattr(now, "guest_nice", 0.0)  # those are in user and nice
        busy_s = all_s - now.idle - getattr(now, "iowait", 0.0)
        before, self._times = self._times, (busy_s, all_s)
        if before is not None and all_s > before[1]:
            self._busy = min(1.0, max(0.0, (busy_s - before[0]) / (all_s - before[1])))
            self._grew_at_s = time.monotonic()
        return self._busy if time.monotonic() - self._grew_at_s <= LONGEST_S else None

    def _own_cpu(self) -> float | None:
        """Return what jetq's processes used since the last look, those of other nodes on this machine included."""
        now_s = time.monotonic()
        since_s = now_s - self._own_at_s
        if since_s < SHORTEST_S:
            return self._own
        times = {pid: used for pid in (*process.marked(None), os.getpid()) if (used := _cpu_s(pid)) is not None}
        used_s = sum(used - self._own_times.get(pid, 0.0) for pid, used in times.items())
        first = not self._own_times
        self._own_times, self._own_at_s = times, now_s
        return None if first else min(1.0, max(0.0, used_s / since_s / (os.cpu_count() or 1)))

    def _read_disk(self) -> int | None:
        try:
            return int(psutil.disk_usage(str(self._folder)).free)
        except OSError:
            return None

    def _identity(self) -> str:
        serial = self._text("proc/device-tree/serial-number")
        return serial or self._mac() or self._text("etc/machine-id") or platform.node()

    def _mac(self) -> str:
        """Return the address of the first real network card, else of the first interface that has one."""
        cards = sorted((self._root / "sys/class/net").glob("*"))
        real = [card for card in cards if (card / "device").exists()]
        for card in [*real, *cards]:
            address = self._text(f"sys/class/net/{card.name}/address")
            if address.strip("0:"):
                return address
        return ""

    def _mem_limit(self, total_bytes: int) -> int:
        limit = self._text("sys/fs/cgroup/memory.max") or self._text("sys/fs/cgroup/memory/memory.limit_in_bytes")
        return min(total_bytes, int(limit)) if limit.isdigit() else total_bytes

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text(errors="replace").strip("\0 \n")
        except OSError:
            return ""


def _read(source: Callable[[], T]) -> T | None:
    """Read one source; what cannot be read, or makes no sense to psutil, is unknown."""
    try:
        return source()
    except (OSError, ValueError, LookupError, RuntimeError, psutil.Error):
        return None


def hottest_c() -> float | None:
    """Return the temperature of the hottest zone in °C, or None where no sensor gives a sane one."""
    found = [sensor.current for zone in psutil.sensors_temperatures().values() for sensor in zone]
    sane = [temp for temp in found if temp is not None and math.isfinite(temp) and -40.0 < temp < 150.0]
    return max(sane, default=None)


def _cpu_s(pid: int) -> float | None:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
