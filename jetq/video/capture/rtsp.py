"""Ask an RTSP camera what it sends, before a decoder is chosen: it says in plain words what is wrong, and at once."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from jetq.errors import CameraFault
from jetq.video.capture.addresses import ANSWER_S, plain

#: An answer is a page of text (bytes).
_MOST_BYTES = 64 * 1024
#: Names of codecs in SDP (RFC 6184, 7798, 2435), and ours.
_CODECS = {"H264": "h264", "H265": "h265", "JPEG": "mjpeg"}
#: A static payload type that needs no name (RFC 3551).
_JPEG_TYPE = "26"
_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s,]+))')
_PORTS = {"rtsp": 554, "rtsps": 322}
_WHY = {
    401: "it refuses the user name or the password (401)",
    403: "it refuses that user (403)",
    404: "it has no such stream (404): check the path of the address",
    453: "it has no bandwidth left (453): too many watch it",
    503: "it is too busy (503): too many watch it",
}


def ask(address: str, *, within_s: float = ANSWER_S) -> tuple[str, socket.socket]:
    """Ask a camera what it sends, on a connection of its own that starts nothing.

    Returns:
        The codec of its first video stream (``h264``, ``h265``, ``mjpeg``, or another in lower case; "": it did not
        say), and the connection. It is best left open until a library has opened the camera: a server that makes its
        stream for whoever comes takes it down in between, and refuses the next one (GStreamer's often does).

    Raises:
        CameraFault: it is not there, does not answer, refuses the credentials, or sends no video.
    """
    parts = urlsplit(plain(address))
    until_s = time.monotonic() + within_s
    try:
        line = _connected(parts, within_s)
        try:
            return _codec_of(line, parts, until_s), line
        except (CameraFault, OSError):
            line.close()
            raise
    except OSError as exc:
        raise CameraFault(no_connection(exc, within_s)) from exc


def no_connection(exc: OSError, within_s: float) -> str:
    """Return why a camera cannot be reached, in words."""
    if isinstance(exc, TimeoutError):
        return f"it is silent: no answer within {within_s:g} s"
    return f"no connection ({exc.strerror or exc})"


def _codec_of(line: socket.socket, parts: SplitResult, until_s: float) -> str:
    answer = _ask(line, parts, "", 1, until_s)
    if answer.status == 401 and parts.username is not None:
        proof = _proof(answer.headers.get("www-authenticate", ""), parts)
        answer = _ask(line, parts, proof, 2, until_s) if proof else _Answer(200, {}, "")
    if answer.status == 401 and parts.username is None:
        raise CameraFault("it wants a user name and a password (401)")
    if answer.status in _WHY:
        raise CameraFault(_WHY[answer.status])
    return _codec(answer.text) if answer.status == 200 else ""


class _Answer:
    """What a camera answered."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.status, self.headers, self.text = status, headers, text


def _connected(parts: SplitResult, within_s: float) -> socket.socket:
    line = socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), within_s)
    if parts.scheme == "rtsp":
        return line
    # Cameras sign their own certificates, which nobody could check: the line is private, its end is not proven.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        return context.wrap_socket(line, server_hostname=parts.hostname)
    except OSError:
        line.close()
        raise


def _where(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _ask(line: socket.socket, parts: SplitResult, proof: str, number: int, until_s: float) -> _Answer:
    lines = [f"DESCRIBE {_where(parts)} RTSP/1.0", f"CSeq: {number}", "Accept: application/sdp", "User-Agent: jetq"]
    line.sendall("\r\n".join([*lines, *([f"Authorization: {proof}"] if proof else []), "", ""]).encode())
    got = b""
    while b"\r\n\r\n" not in got:
        got += _more(line, got, until_s)
    head, _, body = got.partition(b"\r\n\r\n")
    first, *rest = head.decode("utf-8", "replace").split("\r\n")
    status = re.match(r"RTSP/1\.\d (\d{3})", first)
    if status is None:
        raise CameraFault("what answers there is no RTSP camera")
    # Of two ways to log in that it offers, the last line stands: Digest, as most write it. Basic is a fallback.
    headers: dict[str, str] = {}
    for field in rest:
        name, _, value = field.partition(":")
        key = name.strip().lower()
        if not (key == "www-authenticate" and headers.get(key, "").lower().startswith("digest")):
            headers[key] = value.strip()
    length = headers.get("content-length", "0")
    while len(body) < (int(length) if length.isdecimal() else 0):
        body += _more(line, body, until_s)
    return _Answer(int(status[1]), headers, body.decode("utf-8", "replace"))


def _more(line: socket.socket, got: bytes, until_s: float) -> bytes:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    line.settimeout(left_s)
    more = line.recv(_MOST_BYTES)
    if not more:
        raise CameraFault("it hangs up without an answer")
    if len(got) + len(more) > _MOST_BYTES:
        raise CameraFault("what answers there is no RTSP camera")
    return more


def _proof(challenge: str, parts: SplitResult) -> str:
    """Return the header that proves who asks; "" if the camera wants what is not known here."""
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    kind, _, rest = challenge.partition(" ")
    if kind.lower() == "basic":
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    asked = {name.lower(): quoted or bare for name, quoted, bare in _FIELD.findall(rest)}
    if kind.lower() != "digest" or asked.get("algorithm", "MD5").upper() != "MD5" or "nonce" not in asked:
        return ""
    realm, nonce, uri = asked.get("realm", ""), asked["nonce"], _where(parts)
    whole = [_md5(f"{user}:{realm}:{password}"), nonce, _md5(f"DESCRIBE:{uri}")]
    fields = {"username": user, "realm": realm, "nonce": nonce, "uri": uri}
    tail = ""
    if "auth" in asked.get("qop", "").split(","):
        mark = secrets.token_hex(8)
        whole[2:2] = ["00000001", mark, "auth"]
        tail = f', qop=auth, nc=00000001, cnonce="{mark}"'
    fields["response"] = _md5(":".join(whole))
    if "opaque" in asked:
        fields["opaque"] = asked["opaque"]
    return "Digest " + ", ".join(f'{name}="{value}"' for name, value in fields.items()) + tail


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()  # RFC 2617 wants no other


def _codec(sdp: str) -> str:
    """Return the codec of the first video stream that a session description names."""
    media = re.split(r"^m=", sdp, flags=re.MULTILINE)[1:]
    films = [text for text in media if text.startswith("video")]
    if media and not films:
        raise CameraFault("it sends sound only, no video")
    for film in films:
        payload = film.split("\n", 1)[0].split()[3:4]
        named = re.search(rf"^a=rtpmap:{re.escape(payload[0])} ([\w-]+)/", film, re.MULTILINE) if payload else None
        if named:
            return _CODECS.get(named[1].upper(), named[1].lower())
        if payload == [_JPEG_TYPE]:
            return "mjpeg"
    return ""
