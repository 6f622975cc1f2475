"""Start runners of streams from the lane's warm spare process, and know when they are gone."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jetq import process
from jetq.errors import JetqError
from jetq.log import Log

#: A spare that does not start a runner within this (s) hangs, and is replaced; so does one that has not come up within
#: that, where a slow disk may have to load all libraries.
START_S, UP_S = 30.0, 180.0
#: Between two looks whether somebody has lost interest (s).
_LOOK_S = 0.25
#: Pause before a spare that ended is started anew (s).
_PAUSE_S = 1.0
#: The longest message (bytes).
_MOST = 4096
#: Libraries shall not make threads of their own: a spare may not have any, and each stream is one core's work.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_log = Log("runners")


@dataclass(slots=True)
class Runner:
    """One runner, as its supervisor sees it."""

    channel: socket.socket  # not blocking
    pid: int | None = None
    code: int | None = None
    gone: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)


class Runners:
    """The spare of one lane. Threads may call it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._child: process.Child | None = None
        self._closing = threading.Event()
        self._up = threading.Event()  # a spare is ready
        self._waiting: dict[int, Runner] = {}  # by number, until they have a pid
        self._running: dict[int, Runner] = {}  # by pid
        self._numbers = itertools.count(1)
        self._thread = threading.Thread(target=self._keep, name="spare", daemon=True)

    def warm_up(self) -> None:
        """Have a spare ready for the first stream."""
        with self._lock:
            if not self._thread.is_alive():
                self._thread.start()

    def start(self, first: Mapping[str, Any], out_fd: int, stop: threading.Event) -> Runner:
        """Start a runner.

        Args:
            first: what it is told.
            out_fd: where its stdout and stderr go.
            stop: set when it is not wanted any more.

        Raises:
            JetqError: no spare comes up, or it is not wanted any more.
        """
        self.warm_up()
        ours, theirs = socket.socketpair()
        runner, number = Runner(ours), next(self._numbers)
        try:
            if not _wait(self._up, START_S, stop):
                raise JetqError("the process that streams are started from does not come up; see the node's log")
            with self._lock:
                sock = self._sock
                if sock is None:
                    raise JetqError("the process that streams are started from has just ended; it is started anew")
                self._waiting[number] = runner
            socket.send_fds(
                sock, [json.dumps({"run": number}).encode()], [theirs.fileno(), out_fd], socket.MSG_DONTWAIT
            )
            if not _wait(runner.started, START_S, stop):
                if stop.is_set():
                    raise JetqError("it shall end before it has begun")
                self.replace("does not start runners")
                raise JetqError("the process that streams are started from hangs; it is started anew")
            if runner.pid is None:
                raise JetqError("the process that streams are started from has just ended; it is started anew")
            ours.sendall(json.dumps(first).encode() + b"\n")
        except (OSError, JetqError) as exc:
            ours.close()
            raise exc if isinstance(exc, JetqError) else JetqError(f"no runner could be started: {exc}") from exc
        finally:
            theirs.close()
        ours.setblocking(False)
        return runner

    def signal(self, runner: Runner, number: signal.Signals) -> None:
        """Signal a runner and all in its group."""
        with self._lock:
            sock = self._sock
        if sock is not None and runner.pid is not None and not runner.gone.is_set():
            try:
                sock.send(json.dumps({"signal": runner.pid, "number": int(number)}).encode(), socket.MSG_DONTWAIT)
            except OSError:
                return  # the spare has ended, and all runners with it; or it hangs, and whoever waits will replace it

    def _keep(self) -> None:
        """Keep a spare running. Runners die with it, and it with this thread."""
        while not self._closing.is_set():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            env = {**os.environ, **_ONE_THREAD}
            try:
                self._child = child = process.spawn(
                    process.self_argv("_spare", "--fd", str(theirs.fileno())), env=env, pass_fds=[theirs.fileno()]
                )
            except JetqError as exc:
                _log.error("spare.not_started", why=exc)
                ours.close()
                self._closing.wait(_PAUSE_S)
                continue
            finally:
                theirs.close()
            with self._lock:
                self._sock = ours
            self._hear(ours)
            self._up.clear()
            with self._lock:
                self._sock = None
                lost = [*self._running.values(), *self._waiting.values()]
                self._running.clear()
                self._waiting.clear()
            ours.close()
            child.kill()
            for runner in lost:
                if runner.pid is not None:
                    process.kill_group(runner.pid)  # it has died with its spare; what it had started has not
                runner.code = -int(signal.SIGKILL)
                runner.started.set()
                runner.gone.set()
            _log.warning("spare.ended", code=child.poll(), runners=len(lost))
            self._closing.wait(_PAUSE_S)

    def _hear(self, sock: socket.socket) -> None:
        sock.settimeout(UP_S)
        while True:
            try:
                data = sock.recv(_MOST)
            except OSError:
                return
            if not data:
                return
            said = json.loads(data)
            if "ready" in said:
                sock.settimeout(None)
                self._up.set()
            elif "run" in said:
                with self._lock:
                    runner = self._waiting.pop(said["run"])
                    runner.pid = said["pid"]
                    self._running[said["pid"]] = runner
                runner.started.set()
            else:
                with self._lock:
                    runner = self._running.pop(said["gone"])
                runner.code = said["code"]
                runner.gone.set()

    def close(self) -> None:
        """End all runners, and their spare."""
        self._closing.set()
        self.replace("its lane ends")
        if self._thread.is_alive():
            self._thread.join(START_S)

    def replace(self, why: str) -> None:
        """End the spare; the thread that keeps it starts another."""
        _log.warning("spare.replaced", why=why)
        with self._lock:
            if self._sock is not None:
                self._sock.shutdown(socket.SHUT_RDWR)


def _wait(event: threading.Event, within_s: float, stop: threading.Event) -> bool:
    """Wait for an event, unless there is no need any more. Returns whether it came."""
    end_s = time.monotonic() + within_s
    while not event.wait(_LOOK_S):
        if stop.is_set() or time.monotonic() >= end_s:
            return False
    return True
