"""Addresses as libraries take them: none breaks out of its quotes, or leads to what was not asked for."""

from __future__ import annotations

from urllib.parse import quote

from jetq.video.capture.base import Source

#: Addresses that do not say how fast a camera is; what libraries say of them is a guess.
WEB = frozenset({"http", "https"})
#: A camera that does not answer so long (s), at the start of a connection, is not there.
ANSWER_S = 5.0
#: What an address may hold as it is (RFC 3986, without the single quote). All else is written as %XX, which servers
#: read as the same; backslashes and quotes are among it, which GStreamer's launch syntax would take for its own.
_PLAIN = "%:/?#[]@!$&()*+,;=-._~"
#: What a network camera may make FFmpeg open (a playlist names further addresses, also of files).
_PROTOCOLS = {
    "rtsp": "rtp,rtsp,tcp,udp",
    "rtsps": "rtp,rtsps,rtsp,tcp,tls,udp",
    "http": "http,https,tcp,tls",
    "https": "http,https,tcp,tls",
}


def plain(address: str) -> str:
    """Return an address in which every character stands for itself, wherever it is written."""
    return quote(address, safe=_PLAIN)


def ffmpeg_options(source: Source) -> dict[str, str]:
    """Return how FFmpeg opens a network camera.

    The frame rate is not measured first (``fpsprobesize``): that would take 2 s of each start.
    """
    options = {"protocol_whitelist": _PROTOCOLS[source.camera.scheme], "fpsprobesize": "0"}
    if source.camera.scheme in ("rtsp", "rtsps"):
        options["rtsp_transport"] = "tcp"
    return options


def usable_fps(rate: float | None) -> float | None:
    """Return a frame rate that a camera can have, or None: what libraries say where they do not know is no rate."""
    return float(rate) if rate and 0 < rate <= 240 else None
