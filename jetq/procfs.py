"""What the kernel says of processes (/proc), and of who is at the other end of a local socket."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


def network() -> str:
    """Return what tells this network namespace from others on the machine (they share its processes)."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def place() -> str:
    """Return what tells this loopback interface from all others: the machine's boot and the network namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{boot} {network()}"


def is_ours(peer: socket.socket) -> bool:
    """Tell whether a process of our own user is at the other end of a local socket."""
    asked = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(asked)[1] == os.geteuid())


def children(pid: int | None = None) -> list[int]:
    """Return the pids of a process's children (ours by default), zombies included."""
    own = os.getpid() if pid is None else pid
    try:
        tasks = list(Path(f"/proc/{own}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # gone, or a kernel without PROC_CHILDREN
        return [child for child in pids() if parent(child) == own]


def pids() -> list[int]:
    """Return all pids of this machine."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def environ(pid: int) -> list[bytes]:
    """Return the environment that a process was started with."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return []


def born(pid: int) -> int | None:
    """Return when a process started (clock ticks since boot): with its pid, its only name. None: it has ended."""
    fields = _stat(pid)
    return int(fields[19]) if _runs(fields) else None


def group(leader: int) -> list[int]:
    """Return the pids that run in the process group, or in the session, that this process leads or has led."""
    found = []
    for pid in pids():
        fields = _stat(pid)
        if _runs(fields) and str(leader) in fields[2:4]:
            found.append(pid)
    return sorted(found)


def command(pid: int) -> str:
    """Return the name of the program that a process runs; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _runs(fields: list[str]) -> bool:
    """Tell whether a process is more than its exit code: one that has been killed may have threads that still end."""
    return bool(fields) and (fields[0] not in ("Z", "X") or int(fields[17]) > 1)


def parent(pid: int) -> int:
    """Return the pid of a process's parent, 0 if it is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process from its state on; [] if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
