"""Run a server in the background, and return once it is ready or has failed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from jetq.errors import JetqError


class Refused(JetqError):
    """The server in the background did not come up; the message and the exit code are its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def in_background(serve: Callable[[Callable[[dict[str, Any]], None]], None], log: Path) -> dict[str, Any]:
    """Run ``serve(ready)`` in a process of its own and return what it gives to ``ready``.

    Call it before any thread is started. The process leaves our session, so that nothing of the terminal reaches it;
    it writes to ``log`` from the moment it is ready.

    Raises:
        Refused: ``serve`` raised or ended first.
        KeyboardInterrupt: came while waiting; the process is told to stop, and has.
    """
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    held_back = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # until we know whom to stop
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
        _child(serve, log, write_fd)
    os.close(write_fd)
    with open(read_fd) as answers:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
            text = answers.read()
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGTERM)
            answers.read()
            raise
    answer: dict[str, Any] = json.loads(text) if text else {"error": f"it ended without a word; see {log}", "code": 1}
    if "error" in answer:
        raise Refused(answer["error"], answer["code"])
    ready: dict[str, Any] = answer["ready"]
    return ready


def _child(serve: Callable[[Callable[[dict[str, Any]], None]], None], log: Path, write_fd: int) -> NoReturn:
    code = 0
    with open(write_fd, "w") as out:

        def ready(facts: dict[str, Any]) -> None:
            out.write(json.dumps({"ready": facts}))
            out.close()
            _redirect(log)

        try:
            serve(ready)
        except JetqError as exc:
            code = exc.exit_code
            if out.closed:
                print(f"jetq: {exc}", file=sys.stderr, flush=True)
            else:
                out.write(json.dumps({"error": str(exc), "code": code}))
    sys.exit(code)


def _redirect(log: Path) -> None:
    """Let go of the terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
