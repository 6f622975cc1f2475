"""Where frames come from: the addresses of cameras that jetq understands, without their credentials."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from jetq.errors import UsageError
from jetq.model.credentials import HIDDEN, Secret, hides, take_apart

#: An address of each kind, as messages show it.
EXAMPLES = {
    "rtsp": "rtsp://192.168.1.20/stream1",
    "rtsps": "rtsps://192.168.1.20/stream1",
    "http": "http://192.168.1.20/mjpg",
    "https": "https://192.168.1.20/mjpg",
    "v4l2": "v4l2:/dev/video0",
    "csi": "csi:0",
    "file": "file:/data/yard.mp4",
    "test": "test:ball?size=640x360&fps=15",
}
#: Cameras that hang on one machine, and that one process at a time can open.
LOCAL = frozenset({"v4l2", "csi"})
#: Cameras behind a network.
NETWORK = frozenset({"rtsp", "rtsps", "http", "https"})
#: What ``test:`` can draw.
PATTERNS = ("ball", "bars", "noise", "still")
#: What ``test:`` draws unless it is told otherwise.
TEST_SIZE, TEST_FPS = (640, 360), 15.0
#: More characters, or more frames a second, are a typo.
LONGEST, MOST_FPS = 2048, 240.0
#: Width and height of a picture (pixels): smaller shows nothing, larger no decoder takes.
LEAST_SIDE, MOST_SIDE = 16, 8192
#: Sensors that a Jetson can have.
_SENSORS = 16
_DEVICE = re.compile(r"/dev/[A-Za-z0-9_.:+/-]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")


@dataclass(frozen=True, slots=True)
class CameraUri:
    """One camera. ``shown`` is its one spelling, and holds no secret."""

    scheme: str
    shown: str
    place: str  # host, device, number of a sensor, path or pattern
    size: tuple[int, int] | None = None  # width and height, where the address says it
    fps: float | None = None  # likewise

    @property
    def local(self) -> bool:
        """Whether it hangs on one machine, and is opened by one process at a time."""
        return self.scheme in LOCAL

    @property
    def hides(self) -> bool:
        """Whether a secret belongs to it."""
        return hides(self.shown)


def parse(text: object) -> tuple[CameraUri, Secret | None]:
    """Return a camera, and its credentials apart from it (None: it has none, or they are hidden already).

    Raises:
        UsageError: it is no address of a camera; the message holds no secret.
    """
    if not isinstance(text, str) or not text:
        raise UsageError(f"a stream needs the address of its camera, for example {EXAMPLES['rtsp']}")
    if len(text) > LONGEST:
        raise UsageError(f"the camera's address has {len(text)} characters; {LONGEST} is the most")
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if not colon or scheme not in EXAMPLES:
        raise UsageError(_unknown(text, scheme if colon else ""))
    if not text.isprintable() or (scheme != "file" and " " in text):
        raise UsageError(
            f"the {scheme} address of a camera has a space or a control character in it; write a space as %20"
        )
    if scheme in NETWORK:
        return _network(scheme, rest)
    return {"v4l2": _device, "csi": _sensor, "file": _file, "test": _pattern}[scheme](rest), None


def allowed(camera: CameraUri, stream_allow: Sequence[str], *, real_path: str | None = None) -> str:
    """Return why a node may not open a camera, "" if it may.

    Args:
        stream_allow: folders (``/data/clips``) for ``file:``, and patterns (``*``, ``?``) of addresses without
            credentials (``rtsp://192.168.1.*``, ``csi:*``). Empty: all are allowed; else what is not named is not.
        real_path: where a file really lies, links followed.
    """
    if not stream_allow:
        return ""
    plain = camera.shown.replace(f"://{HIDDEN}@", "://", 1)
    path = (real_path or camera.place) if camera.scheme == "file" else None
    for entry in stream_allow:
        if path is not None and entry.startswith("/"):
            folder = posixpath.normpath(entry)
            if path == folder or path.startswith(folder.rstrip("/") + "/"):
                return ""
        elif _matches(entry, f"file:{path}" if path is not None else plain):
            return ""
    return (
        f"its stream_allow list does not allow {camera.shown} (it allows: {', '.join(stream_allow)}); ask who runs it"
    )


def check_allowed(entry: str) -> None:
    """Check one entry of a list of what streams may open.

    Raises:
        UsageError: it could never allow anything.
    """
    if take_apart(entry)[1] is not None:
        raise UsageError("a list of what streams may open holds no credentials: they are not compared")
    plain = re.split(r"[*?]", entry, maxsplit=1)[0]
    starts = [f"{scheme}:" for scheme in EXAMPLES]
    named = any(plain.startswith(start) for start in starts)
    if entry.startswith("/") or named or (plain != entry and any(start.startswith(plain) for start in starts)):
        return
    raise UsageError(
        f"{entry!r:.80} allows nothing: write a folder (/data/clips) or a pattern of addresses, for example "
        "'rtsp://192.168.1.*', 'csi:*' or 'test:*'"
    )


def picture_size(text: str) -> tuple[int, int]:
    """Return width and height that ``WIDTHxHEIGHT`` names.

    Raises:
        UsageError: another form, or a picture that is too small or too large.
    """
    found = _SIZE.fullmatch(text)
    sides = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(LEAST_SIDE <= side <= MOST_SIDE for side in sides):
        raise UsageError(
            f"a size is WIDTHxHEIGHT, each from {LEAST_SIDE} to {MOST_SIDE}, for example 1280x720, not {text!r:.40}"
        )
    return sides


def frame_rate(value: object) -> float:
    """Return a number of frames a second.

    Raises:
        UsageError: it is no number, 0 or less, or more than any camera gives.
    """
    number = _number(value)
    if number is None or not 0 < number <= MOST_FPS:
        raise UsageError(f"fps must be a number above 0, up to {MOST_FPS:g}, not {value!r:.40}")
    return number


def _unknown(text: str, scheme: str) -> str:
    known = "; ".join(EXAMPLES.values())
    if re.fullmatch(r"/dev/(video\d+|v4l/.+)", text):
        return f"write v4l2:{text} for the camera at {text}"
    if text.isdecimal():
        return f"write v4l2:/dev/video{text} for a USB camera, csi:{text} for one on the board's own connector"
    if text.startswith(("/", "./", "../", "~")):
        return f"write file: and the whole path for a file, for example {EXAMPLES['file']}"
    if scheme and re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        return f"jetq opens no {scheme}: cameras; it knows {known}"
    return f"that is no address of a camera; jetq knows {known}"


def _network(scheme: str, rest: str) -> tuple[CameraUri, Secret | None]:
    example = EXAMPLES[scheme]
    if not rest.startswith("//"):
        raise UsageError(f"write //, then the host: {example}")
    authority = re.split(r"[/?#]", rest[2:], maxsplit=1)[0]
    tail = rest[2 + len(authority) :]
    if "@" in tail or "#" in tail:
        raise UsageError(
            f"the {scheme} address has an @ or a # behind its host: there write %40 and %23; "
            "in a user name or a password write / ? # as %2F %3F %23"
        )
    userinfo, at, host_port = authority.rpartition("@")
    if userinfo == ":":
        userinfo = ""
    host, port = _host(scheme, host_port)
    place = f"[{host}]" if ":" in host else host
    where = place if port is None else f"{place}:{port}"
    shown, secret = take_apart(f"{scheme}://{userinfo}{at if userinfo else ''}{where}{tail}")
    return CameraUri(scheme, shown, where), secret


def _host(scheme: str, text: str) -> tuple[str, int | None]:
    # Nothing of it is shown: what stands here may be a user name and a password without their @.
    wrong = f"the {scheme} address needs a host, and after it no port or one from 1 to 65535: {EXAMPLES[scheme]}"
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError(wrong) from None
    if not (_HOST.fullmatch(host) or re.fullmatch(r"[0-9a-f:.]*:[0-9a-f:.]*(%\w+)?", host)) or port == 0:
        raise UsageError(wrong)
    if text.endswith(":"):
        raise UsageError(wrong)
    return host, port


def _device(rest: str) -> CameraUri:
    path = posixpath.normpath(f"/{rest.lstrip('/')}")
    if not rest.startswith("/") or not _DEVICE.fullmatch(path):
        raise UsageError(f"a USB camera is named by its device, for example {EXAMPLES['v4l2']}, not v4l2:{rest:.80}")
    return CameraUri("v4l2", f"v4l2:{path}", path)


def _sensor(rest: str) -> CameraUri:
    number = rest.lstrip("/")
    if not (number.isascii() and number.isdecimal() and int(number) < _SENSORS):
        raise UsageError(f"a CSI camera is named by its sensor, csi:0 to csi:{_SENSORS - 1}, not csi:{rest:.80}")
    return CameraUri("csi", f"csi:{int(number)}", str(int(number)))


def _file(rest: str) -> CameraUri:
    path = rest
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UsageError(f"a file lies on the node that reads it: write {EXAMPLES['file']}, without a host")
        path = unquote(slash + tail)
    if not path.startswith("/") or path.endswith("/"):
        raise UsageError(
            f"a file is named by its whole path on the node, for example {EXAMPLES['file']}, not file:{rest:.80}"
        )
    if not path.isprintable():
        raise UsageError("the path of a file has a control character in it")
    path = "/" + posixpath.normpath(path).lstrip("/")
    return CameraUri("file", f"file:{path}", path)


def _pattern(rest: str) -> CameraUri:
    pattern, _, query = rest.partition("?")
    if pattern not in PATTERNS:
        raise UsageError(f"test: draws {', '.join(PATTERNS)}, not {pattern!r:.40}; for example {EXAMPLES['test']}")
    pairs = parse_qsl(query, keep_blank_values=True)
    given = dict(pairs)
    if len(given) < len(pairs) or not given.keys() <= {"size", "fps"}:
        raise UsageError(f"test: takes size and fps, once each; for example {EXAMPLES['test']}")
    size = picture_size(given["size"]) if "size" in given else TEST_SIZE
    fps = frame_rate(given.get("fps", TEST_FPS))
    return CameraUri("test", f"test:{pattern}?size={size[0]}x{size[1]}&fps={fps:g}", pattern, size, fps)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _matches(pattern: str, text: str) -> bool:
    parts = [{"*": ".*", "?": "."}.get(character) or re.escape(character) for character in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None
