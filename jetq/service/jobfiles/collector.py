"""Collect what the jobs of a node print: into each job's log, and on into the node's own."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import threading

from jetq import procfs
from jetq.log import Log
from jetq.service.jobfiles.folders import JobFolders
from jetq.service.jobfiles.log import LogFile
from jetq.service.jobfiles.outlet import Label, Whose, pending_bytes

_READ_BYTES = 65536
#: A process that connects hands its pipe over at once; it is waited for at most so long (s).
_HELLO_S = 0.5
_NODE_LOG = 2

_log = Log("output")


class Source:
    """One pipe that jobs write to."""

    def __init__(self, fd: int, label: Label) -> None:
        self.fd = fd
        self._label = label
        self._pending = bytearray(4)
        self._seq = -1
        self.log: LogFile | None = None

    def take(self) -> tuple[bytes, Whose] | None:
        """Return what lies in the pipe and whose it is; None: nothing does.

        The writer does not change the label before its pipe is empty, so a label that is read while something is in
        the pipe names the run that wrote it. ``done`` must follow once it is in the log.
        """
        if not pending_bytes(self.fd, self._pending):
            return None
        whose = self._label.read()
        self._label.busy = True
        return os.read(self.fd, _READ_BYTES), whose

    def done(self) -> None:
        """Say that what was taken is in the log."""
        self._label.busy = False

    def log_of(self, whose: Whose, folders: JobFolders, limit_bytes: int) -> LogFile | None:
        """Return the log of the run; None: the output belongs to no job."""
        if whose.seq != self._seq:
            self._seq = whose.seq
            if self.log is not None:
                self.log.close()
            found = whose.job_id and LogFile(folders.folder(whose.job_id), whose.attempt, limit_bytes=limit_bytes)
            self.log = found or None
        return self.log

    def close(self) -> None:
        """Let go of pipe, label and log."""
        os.close(self.fd)
        self._label.close()
        if self.log is not None:
            self.log.close()


class Collector:
    """One thread that reads the output of all jobs. What cannot be kept is counted; no job ever fails of it."""

    def __init__(self, folders: JobFolders, *, log_max_bytes: int) -> None:
        """Listen at once; nothing is read before ``start``."""
        self.address = f"jetq-output-{secrets.token_hex(8)}"
        self.lost_bytes = 0
        self._folders = folders
        self._log_max_bytes = log_max_bytes
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{self.address}")
        self._listener.listen(64)
        self._sources: dict[int, Source] = {}
        self._wake_fd, self._end_fd = os.pipe()
        self._poll = select.poll()
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._failing = False

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more; what the pipes still hold is taken first."""
        if self._end_fd >= 0:
            os.close(self._end_fd)
            self._end_fd = -1
            if self._thread.is_alive():
                self._thread.join(2.0)

    def _run(self) -> None:
        for fd in (self._wake_fd, self._listener.fileno()):
            self._poll.register(fd, select.POLLIN)
        ended = False
        while not ended:
            for fd, event in self._poll.poll():
                if fd == self._wake_fd:
                    ended = True
                elif fd == self._listener.fileno():
                    self._admit()
                elif fd in self._sources:
                    self._serve(self._sources[fd], event)
        self._listener.close()
        os.close(self._wake_fd)
        for source in list(self._sources.values()):
            while (taken := source.take()) is not None:
                self._keep(source, *taken)
            self._drop(source)

    def _admit(self) -> None:
        """Take the pipe and the label of a process of our own user."""
        with contextlib.suppress(OSError):
            peer, _ = self._listener.accept()
            with peer:
                peer.settimeout(_HELLO_S)
                ours = procfs.is_ours(peer)
                _word, fds, _flags, _address = socket.recv_fds(peer, 16, 2)
            if len(fds) != 2 or not ours:
                for fd in fds:
                    os.close(fd)
                return
            os.set_blocking(fds[0], False)
            self._sources[fds[0]] = Source(fds[0], Label(fds[1]))
            os.close(fds[1])
            self._poll.register(fds[0], select.POLLIN)

    def _serve(self, source: Source, event: int) -> None:
        if event & select.POLLIN:
            taken = source.take()
            if taken is not None:
                self._keep(source, *taken)
        else:  # nothing in it, and nobody left who could write
            self._drop(source)

    def _keep(self, source: Source, data: bytes, whose: Whose) -> None:
        log = source.log_of(whose, self._folders, self._log_max_bytes)
        if log is not None:
            self._count(whose.job_id, len(data), log.write(data))
        source.done()
        with contextlib.suppress(OSError):  # the terminal is gone, or the disk is full
            while data:
                data = data[os.write(_NODE_LOG, data) :]

    def _count(self, job_id: str, size: int, fault: OSError | None) -> None:
        """Tell once that output is lost, and once that it is kept again."""
        if fault is not None:
            self.lost_bytes += size
            if not self._failing:
                _log.warning("output.lost", job=job_id, why=fault.strerror)
        elif self._failing:
            _log.info("output.kept_again", lost_bytes=self.lost_bytes)
        self._failing = fault is not None

    def _drop(self, source: Source) -> None:
        self._poll.unregister(source.fd)
        del self._sources[source.fd]
        source.close()
