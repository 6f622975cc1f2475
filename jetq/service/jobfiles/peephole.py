"""Look at what a running stream of this node sees: the other end of ``jetq.video.live.preview``."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

from jetq import procfs

#: No picture is larger (bytes): a local socket takes no larger message.
_MOST_BYTES = 256 * 1024


def address_of(root: Path, job_id: str) -> str:
    """Return the (abstract) address at which a stream shows itself.

    Args:
        root: of all jobs' folders on the node, which is there: nodes of one name on one network are told apart by it.
        job_id: of the stream.

    Raises:
        OSError: the folder is not there.
    """
    found = os.stat(root)
    name = hashlib.blake2b(job_id.encode(), digest_size=16).hexdigest()
    return f"jetq-preview-{found.st_dev:x}-{found.st_ino:x}-{name}"


class Peephole:
    """An open view of one stream."""

    def __init__(self, address: str) -> None:
        """Open it.

        Raises:
            OSError: the stream does not run here, or too many watch it.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.setblocking(False)
            self._socket.connect(f"\0{address}")
            if not procfs.is_ours(self._socket):
                raise PermissionError("another user shows something there")
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return what can be waited for: it is ready once there is a picture, or the end."""
        return self._socket.fileno()

    def newest(self) -> bytes | None:
        """Return the newest picture (JPEG); ``b""``: the stream has ended; None: there is no new one."""
        newest: bytes | None = None
        while True:
            try:
                found = self._socket.recv(_MOST_BYTES)
            except BlockingIOError:
                return newest
            except OSError:
                found = b""
            if not found:
                return newest or b""
            newest = found

    def close(self) -> None:
        """Look no more."""
        self._socket.close()
