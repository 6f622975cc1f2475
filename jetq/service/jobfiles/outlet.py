"""Where the output of jobs leaves a process: a pipe to the node's agent, and a label that says whose output it is.

A body prints through Python, through native libraries, and through programs it starts: only the file descriptors 1 and
2 catch all of it, so a pool child has them on a pipe for its whole life. The reader is the agent, another process: a
reader thread beside the body would need the interpreter lock that a native library holds while it waits for the pipe.
A file instead of the pipe would hand a full disk to the body as an error, and could grow without a limit.

Nothing is written for a silent job: the label, in shared memory, names the job, and a child leaves a job only when its
pipe is empty, so what the agent reads always belongs to the job that the label names.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from jetq.log import Log

#: Names the socket of the agent's collector (abstract: it needs no file and dies with the agent).
OUTPUT = "JETQ_OUTPUT"
#: A child waits so long for its output to be taken before it goes on without (s).
DRAIN_S = 1.0
_LOOK_S = 0.0001
#: The label: seq, busy, attempt and length of the id, the id. Native sizes: each number is one store.
_SEQ, _BUSY, _RUN = struct.Struct("@Q"), struct.Struct("@I"), struct.Struct("@II")
_BUSY_AT, _RUN_AT, _ID_AT = 8, 12, 20
LABEL_BYTES = 4096
_LONGEST_ID = LABEL_BYTES - _ID_AT
_IDLE = (0, b"")

_log = Log("outlet")


@dataclass(frozen=True, slots=True)
class Whose:
    """What a label says: which run of which job the output belongs to."""

    seq: int  # another one for each run
    attempt: int
    job_id: str  # "" between jobs


class Label:
    """The shared label of one pipe. One process writes whose it is, another one ``busy``."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, LABEL_BYTES)
        self._seq = 0

    @staticmethod
    def create() -> int:
        """Return an fd of a fresh label."""
        fd = os.memfd_create("jetq-output")
        os.ftruncate(fd, LABEL_BYTES)
        return fd

    def write(self, attempt: int, job_id: bytes) -> None:
        """Name the run whose output follows."""
        self._seq += 2
        _SEQ.pack_into(self._map, 0, self._seq - 1)
        _RUN.pack_into(self._map, _RUN_AT, attempt, len(job_id))
        self._map[_ID_AT : _ID_AT + len(job_id)] = job_id
        _SEQ.pack_into(self._map, 0, self._seq)

    def read(self) -> Whose:
        """Return what it says now; no job while it is being written."""
        seq = _SEQ.unpack_from(self._map)[0]
        attempt, size = _RUN.unpack_from(self._map, _RUN_AT)
        job_id = self._map[_ID_AT : _ID_AT + size]
        if seq % 2 or seq != _SEQ.unpack_from(self._map)[0]:
            return Whose(seq, 0, "")
        return Whose(seq, attempt, job_id.decode(errors="replace"))

    @property
    def busy(self) -> bool:
        """Whether the reader has bytes that are not yet in the log."""
        return bool(_BUSY.unpack_from(self._map, _BUSY_AT)[0])

    @busy.setter
    def busy(self, value: bool) -> None:
        _BUSY.pack_into(self._map, _BUSY_AT, int(value))

    def close(self) -> None:
        """Let go of the memory."""
        self._map.close()


class Outlet:
    """One pipe and its label. ``write_fd`` is for whatever shall write to it."""

    def __init__(self, address: str) -> None:
        """Connect to the collector of that name.

        Raises:
            OSError: nobody is there.
        """
        self._read_fd, self.write_fd = os.pipe()
        label_fd = Label.create()
        try:
            self._label = Label(label_fd)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to_agent:
                to_agent.settimeout(DRAIN_S)
                to_agent.connect(f"\0{address}")
                socket.send_fds(to_agent, [b"\1"], [self._read_fd, label_fd])
        except OSError:
            os.close(self._read_fd)
            os.close(self.write_fd)
            raise
        finally:
            os.close(label_fd)
        self._pending = bytearray(4)

    def begin(self, job_id: str, attempt: int) -> None:
        """Say whose output follows. ``attempt``: infrastructure failures before this run."""
        name = job_id.encode()
        self._label.write(*((attempt + 1, name) if len(name) <= _LONGEST_ID else _IDLE))

    def end(self) -> None:
        """Wait until the output so far is in the log, then say that nothing follows."""
        if not self._is_drained():
            end_s = time.monotonic() + DRAIN_S
            while not self._is_drained() and time.monotonic() < end_s:
                time.sleep(_LOOK_S)
        self._label.write(*_IDLE)

    def close(self) -> None:
        """Write no more; the reader takes what is left."""
        os.close(self.write_fd)
        os.close(self._read_fd)
        self._label.close()

    def _is_drained(self) -> bool:
        return not pending_bytes(self._read_fd, self._pending) and not self._label.busy


class StandardOutlet(Outlet):
    """An outlet that has taken the place of this process's stdout and stderr."""

    def __init__(self, address: str) -> None:
        """Connect, then redirect the file descriptors 1 and 2 for good."""
        super().__init__(address)
        for fd in (1, 2):
            os.dup2(self.write_fd, fd)
        os.close(self.write_fd)
        self.write_fd = 1
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)  # whoever follows a log wants each line when it is printed

    def end(self) -> None:
        """Flush, then as every outlet."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):  # the body has closed or replaced it
                continue
        super().end()


def standard_outlet(environ: Mapping[str, str] = os.environ) -> StandardOutlet | None:
    """Redirect this process's output to its node's collector; None: there is none, and nothing has changed."""
    if not environ.get(OUTPUT):
        return None
    try:
        return StandardOutlet(environ[OUTPUT])
    except OSError as exc:
        _log.warning("outlet.closed", why=exc)
        return None


@contextmanager
def output_of(job_id: str, attempt: int, environ: Mapping[str, str] = os.environ) -> Iterator[int | None]:
    """Give an fd that leads to a job's log, for the stdout and stderr of a program that runs for it.

    ``attempt``: infrastructure failures before this run. None: this process belongs to no node, inherit its own.
    """
    if not environ.get(OUTPUT):
        yield None
        return
    try:
        outlet = Outlet(environ[OUTPUT])
    except OSError as exc:
        _log.warning("outlet.closed", why=exc)
        yield None
        return
    outlet.begin(job_id, attempt)
    try:
        yield outlet.write_fd
    finally:
        outlet.end()
        outlet.close()


def pending_bytes(fd: int, into: bytearray) -> int:
    """Return how many bytes lie in a pipe."""
    fcntl.ioctl(fd, termios.FIONREAD, into)
    return int.from_bytes(into, sys.byteorder)
