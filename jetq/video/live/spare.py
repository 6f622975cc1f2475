"""A process that has imported all that streams need; each runner is forked from it, in milliseconds.

It has no threads, so that it may fork at any time. It speaks with its lane through one socket (SOCK_SEQPACKET):

    to it    {"run": N} with two fds: the runner's channel, and where it writes
             {"signal": PID, "number": S}    to the runner and all in its group
    from it  {"ready": true}    {"run": N, "pid": PID}    {"gone": PID, "code": C}

When the lane is gone, it ends, and all runners with it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from jetq import process
from jetq.video.capture import chain
from jetq.video.live import runner

#: The longest message (bytes).
_MOST = 4096
#: Streams take what is left: on a board that has too much to do, its beats and its broker come first.
_NICE = 5


def serve(lane: socket.socket) -> None:
    """Fork runners until the lane is gone."""
    wake, waker = os.pipe()
    both: list[Any] = [lane, wake]
    os.set_blocking(waker, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its lane
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(waker)
    chain.preload()
    gc.freeze()
    runners: set[int] = set()
    _say(lane, {"ready": True})
    while True:
        ready, _, _ = select.select(both, [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                os.read(wake, 1024)
            _reap(lane, runners)
        if lane in ready and not _obey(lane, runners):
            break
    for pid in runners:
        process.kill_group(pid)


def _obey(lane: socket.socket, runners: set[int]) -> bool:
    """Do what the lane asks. False: it is gone."""
    data, fds, _, _ = socket.recv_fds(lane, _MOST, 2)
    if not data:
        return False
    asked = json.loads(data)
    if "run" in asked:
        pid = _fork(lane, *fds)
        for fd in fds:
            os.close(fd)
        runners.add(pid)
        _say(lane, {"run": asked["run"], "pid": pid})
    elif asked["signal"] in runners:
        process.kill_group(asked["signal"], asked["number"])
    return True


def _reap(lane: socket.socket, runners: set[int]) -> None:
    """Take the exit codes of runners, each with nothing left of its group."""
    for pid in list(runners):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            continue
        process.kill_group(pid)  # before its number is free
        _, status = os.waitpid(pid, 0)
        runners.discard(pid)
        _say(lane, {"gone": pid, "code": os.waitstatus_to_exitcode(status)})


def _fork(lane: socket.socket, channel_fd: int, out_fd: int) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    _become_runner(parent, lane, channel_fd, out_fd)


def _become_runner(parent: int, lane: socket.socket, channel_fd: int, out_fd: int) -> NoReturn:
    code = 1
    try:
        os.setsid()
        process.tie_to(parent)
        os.nice(_NICE)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        lane.close()
        os.dup2(out_fd, 1)
        os.dup2(out_fd, 2)
        runner.main(socket.socket(fileno=channel_fd))
        code = 0
    except BaseException:
        traceback.print_exc()
        raise  # to nobody: the process ends below
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(lane: socket.socket, words: dict[str, Any]) -> None:
    with suppress(OSError):
        lane.send(json.dumps(words).encode())
