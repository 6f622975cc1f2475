"""A server that is started in the background is known to whoever started it, whenever Ctrl-C comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jetq import process

#: Ctrl-C comes in the moment after the fork: before anybody could have been told of the child.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from jetq.service.background import in_background

def serve(ready):
    Path(sys.argv[1]).write_text(str(os.getpid()))
    signal.sigwait([signal.SIGUSR1])

forked = os.fork

def fork():
    pid = forked()
    if pid:
        signal.raise_signal(signal.SIGINT)
    return pid

os.fork = fork
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    in_background(serve, Path(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_right_after_the_fork_stops_the_child(tmp_path: Path, wait_until) -> None:
    pid_file = tmp_path / "pid"
    words = [sys.executable, "-c", SCRIPT, str(pid_file), str(tmp_path / "log")]

    said = subprocess.run(words, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=30, check=True)

    assert said.stdout == "interrupted\n"
    if pid_file.exists():  # else it was stopped before its first word
        wait_until(lambda: process.born(int(pid_file.read_text())) is None, what="the end of the child")
