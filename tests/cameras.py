"""Real network cameras for tests, each a process of its own that dies with the test's.

RtspCameras   a real RTSP server of GStreamer, with as many cameras as wanted
WebCamera     JPEG pictures over HTTP, well behaved or not
black_hole    where connections are taken, and nothing is ever answered

Both run in any network namespace (``prefix``), listen at any address, can be frozen (SIGSTOP: a cable that was pulled)
and come back at the same port after they were killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

_HERE = Path(__file__).resolve().parent
#: The system's Python: what GStreamer brings lies there, and in no venv.
SYSTEM_PYTHON = "/usr/bin/python3"
#: What they need from Debian or Ubuntu.
PACKAGES = (
    "gir1.2-gst-rtsp-server-1.0 python3-gi python3-opencv gstreamer1.0-libav gstreamer1.0-plugins-good "
    "gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly"
)
#: A server that does not listen after so long has not started (s).
START_S = 20.0
#: Dies with the test process, also when that is killed: PR_SET_PDEATHSIG = 1, SIGKILL = 9, then exec.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
_Self = TypeVar("_Self", bound="_Served")


@dataclass(frozen=True)
class Lens:
    """One camera of an RTSP server."""

    path: str = "cam0"
    codec: str = "h264"  # h264, h265, mjpeg; "": sound only
    width: int = 640
    height: int = 360
    fps: int = 15
    pattern: str = "ball"
    gop: int = 15  # frames from one key frame to the next
    sound: bool = False


class _Served:
    """A server in a process of its own. Use it in a ``with`` block, or ``start`` and ``kill`` it."""

    scheme = ""

    def __init__(self, address: str, user: str, password: str, prefix: Sequence[str]) -> None:
        self.address, self.user, self.password, self.prefix = address, user, password, tuple(prefix)
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self: _Self) -> _Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def argv(self) -> list[str]:
        """Return how it is started."""
        raise AssertionError("each kind says how")

    def start(self: _Self) -> _Self:
        """Start, and return once it listens: at the port that it had before, if it was started before."""
        argv = [*self.prefix, *self.argv()]
        tied = [sys.executable, "-I", "-S", "-c", _TIED, *argv]
        self._process = subprocess.Popen(tied, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = select.select([self._process.stdout], [], [], START_S)[0]
        line = self._process.stdout.readline() if ready else ""
        if not line.strip().isdecimal():
            self.kill()
            raise AssertionError(f"{' '.join(argv[:3])} does not listen; Debian, Ubuntu: apt install {PACKAGES}")
        self.port = int(line)
        return self

    def url(self, path: str = "cam0", *, credentials: bool = True) -> str:
        """Return the address of a camera, with the credentials that open it."""
        user = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user and credentials else ""
        return f"{self.scheme}://{user}{self.address}:{self.port}/{path}"

    def freeze(self) -> None:
        """Stop it: lines stay open, and nothing comes."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once. ``start`` begins anew at the same port."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


class RtspCameras(_Served):
    """An RTSP server of GStreamer."""

    def __init__(
        self,
        lenses: Sequence[Lens] = (Lens(),),
        *,
        address: str = "127.0.0.1",
        user: str = "",
        password: str = "",
        digest: bool = False,
        certificate: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Choose what it serves.

        Args:
            lenses: its cameras, by path.
            digest: credentials never travel in plain text.
            certificate: a PEM file with its key; the server then speaks rtsps.
            prefix: a command that runs another one elsewhere, such as ``ip netns exec NAME``.
        """
        super().__init__(address, user, password, prefix)
        self._lenses, self._digest, self._certificate = lenses, digest, certificate
        self.scheme = "rtsps" if certificate else "rtsp"

    def argv(self) -> list[str]:
        """Return how it is started."""
        plan = {
            "address": self.address,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "digest": self._digest,
            "tls": str(self._certificate or ""),
            "cameras": [asdict(lens) for lens in self._lenses],
        }
        return [SYSTEM_PYTHON, str(_HERE / "rtsp_server.py"), json.dumps(plan)]


class WebCamera(_Served):
    """A camera that sends JPEG pictures over HTTP; its paths are listed in tests/web_camera.py."""

    scheme = "http"

    def __init__(
        self,
        *,
        address: str = "127.0.0.1",
        user: str = "",
        password: str = "",
        fps: float = 25,
        prefix: Sequence[str] = (),
    ) -> None:
        """Choose who may watch, and how fast it sends."""
        super().__init__(address, user, password, prefix)
        self._fps = fps

    def argv(self) -> list[str]:
        """Return how it is started."""
        script = str(_HERE / "web_camera.py")
        return [sys.executable, script, self.address, str(self.port), self.user, self.password, str(self._fps)]


@contextmanager
def black_hole(address: str = "127.0.0.1") -> Iterator[int]:
    """Give a port where connections are taken, and nothing is ever answered."""
    with socket.create_server((address, 0)) as listening:
        yield listening.getsockname()[1]
