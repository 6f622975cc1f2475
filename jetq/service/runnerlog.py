"""What a stream's runners write, line by line in the job's log: without secrets, and never more than its node can take.

Who reads here also watches over the camera: it waits neither for the log nor for a runner that writes without an end.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable

from jetq.log import Log
from jetq.model.credentials import Secret, redact

#: Lines that are passed on each second, and bytes of all of them; the others are left out and counted.
LINES_S, BYTES_S = 500, 256 * 1024
#: A longer line is cut (bytes). So much of what is cut off could be the beginning of a secret, and goes with it.
LONGEST, SECRET = 16 * 1024, 1024
#: So long (s) the log may take no more, once in a second; then lines are left out, too.
WAIT_S = 0.05
#: What is read at once (bytes), and what a pipe takes whole (PIPE_BUF).
_PIECE, _WHOLE = 256 * 1024, 4096

_log = Log("stream")


class RunnerLog:
    """Leads from the pipe of a stream's runner, whichever it has now, to the log of its job."""

    def __init__(self, out_fd: int, stream_id: str) -> None:
        """``out_fd``: leads to the job's log on this node."""
        self._out_fd, self._stream_id = out_fd, stream_id
        self.secrets: Iterable[Secret] = ()
        self.fd: int | None = None  # the read end of what the runner writes
        self._rest = b""  # of a line that has no end yet
        self._cut = False  # the rest of that line is left out
        self._second_s, self._lines, self._bytes = 0.0, 0, 0  # passed on in this second
        self._left_out = 0
        self._stuck = False  # the log takes no more, in this second

    def open(self) -> int:
        """Return where the next runner writes. The caller closes it."""
        self.fd, write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        self._rest, self._cut = b"", False
        return write_fd

    def take(self) -> bool:
        """Pass on what there is. False: nobody writes there any more."""
        if self.fd is None:
            return False
        try:
            data = os.read(self.fd, _PIECE)
        except BlockingIOError:
            return True
        lines = data.split(b"\n")
        lines[0] = self._rest + lines[0]
        *lines, self._rest = lines
        for line in lines:
            if not self._cut:
                self._pass_on(line)
            self._cut = False
        if len(self._rest) > LONGEST:
            if not self._cut:
                self._pass_on(self._rest)
            self._rest, self._cut = b"", True
        return bool(data)

    def close(self) -> None:
        """Pass on what is left, up to one piece, and let go of the pipe."""
        if self.fd is not None:
            self.take()
            if self._rest and not self._cut:
                self._pass_on(self._rest)
            os.close(self.fd)
            self.fd = None

    def say(self, text: str) -> None:
        """Add a line of one's own."""
        self._write(redact(text, self.secrets))

    def _pass_on(self, line: bytes) -> None:
        now_s = time.monotonic()
        if now_s - self._second_s >= 1.0:
            self._second_s, self._lines, self._bytes, self._stuck = now_s, 0, 0, False
            if self._left_out:
                left_out, self._left_out = self._left_out, 0
                self.say(f"jetq: {left_out} lines are left out: they were too many")
        self._lines += 1
        self._bytes += min(len(line), LONGEST)
        if self._lines > LINES_S or self._bytes > BYTES_S:
            self._left_out += 1
            return
        text = redact(line[:LONGEST].decode(errors="replace"), self.secrets)
        if len(line) >= LONGEST:
            text = f"{text[:-SECRET]}… (cut: it has more than {LONGEST} bytes)"
        if not self._write(text):
            self._left_out += 1

    def _write(self, text: str) -> bool:
        """Write a line, where the log takes it. False: it does not, now."""
        data = text.encode(errors="replace") + b"\n"
        try:
            for at in range(0, len(data), _WHOLE):
                if not select.select([], [self._out_fd], [], 0.0 if self._stuck else WAIT_S)[1]:
                    self._stuck = True
                    return False
                os.write(self._out_fd, data[at : at + _WHOLE])
        except OSError as exc:
            _log.warning("stream.unlogged", stream=self._stream_id, why=exc)
        return True
