"""How tables look on a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

ID = "0b6f6f6e-5c1c-4d5e-8f53-0b7f3b1f2f3a"
TABLE = f"""
from jetq.cli.format import print_table
row = ("{ID}", "video.analyze", "SUCCEEDED", "node-1", "11:30:55", "1.71s", "a long result " * 6)
columns = ("id", "task", "state", "node", "submitted", "took", "result")
print_table(columns, [row], empty="", spare=("took", "submitted"))
"""


def shown(script: str, columns: int) -> list[str]:
    """Return the lines that a script prints on a terminal of so many columns, without their colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=clean):
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # the terminal's other end is closed
            pass
    os.close(ours)
    plain = re.sub(r"\x1b\[[\d;]*m|\r", "", text.decode())
    return [line.rstrip() for line in plain.splitlines()]


def test_a_wide_terminal_shows_every_column():
    head, *rest = shown(TABLE, 180)

    assert head.split() == ["id", "task", "state", "node", "submitted", "took", "result"]
    assert len(rest) == 1


def test_a_narrow_terminal_leaves_out_what_can_be_spared_and_cuts_no_id():
    lines = shown(TABLE, 90)

    assert lines[0].split() == ["id", "task", "state", "node", "result"]
    assert lines[1].startswith(f"{ID}  video.analyze  SUCCEEDED  node-1  a long")
    assert max(len(line) for line in lines) <= 90


def test_a_terminal_too_narrow_for_what_is_left_breaks_lines_itself():
    lines = shown(TABLE, 40)

    assert lines[1].startswith(f"{ID}  video.analyze  SUCCEEDED  node-1  a long")


def test_columns_of_numbers_stand_to_the_right():
    script = (
        "from jetq.cli.format import print_table\n"
        'print_table(("node", "share", "n"), [("a", "7%", 7), ("b", "100%", None)], empty="")'
    )

    assert shown(script, 80) == ["node  share  n", "a        7%  7", "b      100%  -"]
