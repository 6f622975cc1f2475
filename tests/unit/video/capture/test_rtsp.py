"""Asking a camera: what it answers, whatever that is, ends in words and in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetq.errors import CameraFault
from jetq.video.capture.rtsp import ask

SDP = "v=0\r\ns=-\r\n{media}"
VIDEO = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 {name}/90000\r\n"
SOUND = "m=audio 0 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\n"


@contextmanager
def camera(*answers: bytes, stays: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Give the address of one that answers each question with the next answer, and what it was asked."""
    asked: list[str] = []
    done = threading.Event()

    def serve(listening: socket.socket) -> None:
        with suppress(OSError), listening.accept()[0] as line:
            for answer in answers:
                asked.append(line.recv(65536).decode())
                line.sendall(answer)
            if stays:
                done.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"rtsp://{{}}127.0.0.1:{listening.getsockname()[1]}/cam%200?x=1", asked
        done.set()
        thread.join(5)


def described(media: str, status: str = "200 OK") -> bytes:
    body = SDP.format(media=media)
    return f"RTSP/1.0 {status}\r\nCSeq: 1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def codec_of(address: str, **how: float) -> str:
    codec, line = ask(address, **how)
    line.close()
    return codec


@pytest.mark.parametrize(
    ("media", "codec"),
    [
        (VIDEO.format(name="H264"), "h264"),
        (SOUND + VIDEO.format(name="h265"), "h265"),
        (VIDEO.format(name="JPEG"), "mjpeg"),
        ("m=video 0 RTP/AVP 26\r\n", "mjpeg"),
        (VIDEO.format(name="MP4V-ES"), "mp4v-es"),
        ("m=video 0 RTP/AVP 96\r\na=rtpmap:97 H264/90000\r\n", ""),
        ("m=video\r\n", ""),
        ("", ""),
    ],
)
def test_the_codec_is_that_of_the_first_video(media, codec):
    with camera(described(media)) as (address, asked):
        assert codec_of(address.format("")) == codec

    assert asked[0].startswith("DESCRIBE rtsp://127.0.0.1:")
    assert "/cam%200?x=1 RTSP/1.0\r\n" in asked[0]


def test_a_password_is_sent_to_nobody_who_does_not_ask_for_it():
    with camera(described(VIDEO.format(name="H264"))) as (address, asked):
        codec_of(address.format("admin:secret@"))

    assert "secret" not in asked[0]
    assert "Authorization" not in asked[0]


def test_the_proof_is_that_of_the_standard():
    # RFC 2617: with these, the hash of each part can be computed by hand.
    challenge = 'Digest realm="cam, era", nonce="n1", opaque="o1"'
    first = f"RTSP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nWWW-Authenticate: {challenge}\r\n\r\n"
    with camera(first.encode(), described(VIDEO.format(name="H264"))) as (address, asked):
        assert codec_of(address.format("ad%20min:p%40ss@")) == "h264"

    proof = next(line for line in asked[1].split("\r\n") if line.startswith("Authorization: "))
    assert 'username="ad min", realm="cam, era", nonce="n1", uri="rtsp://127.0.0.1' in proof
    assert 'opaque="o1"' in proof
    assert "p@ss" not in proof


@pytest.mark.parametrize("algorithm", ["SHA-256", "MD5-sess"])
def test_a_proof_that_is_not_known_is_left_to_the_libraries(algorithm):
    first = f'RTSP/1.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm="x", nonce="n", algorithm={algorithm}\r\n\r\n'
    with camera(first.encode()) as (address, _):
        assert codec_of(address.format("a:b@")) == ""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (described("", "404 Not Found"), "no such stream"),
        (described("", "453 Not Enough Bandwidth"), "too many watch it"),
        (described(SOUND), "sound only"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no RTSP camera"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "hangs up"),
        (b"", "hangs up"),
        (b"x" * 70_000, "no RTSP camera"),
        (b"RTSP/1.0 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b"y" * 70_000, "no RTSP camera"),
    ],
)
def test_what_is_wrong_is_said(answer, why):
    with camera(answer) as (address, _), pytest.raises(CameraFault, match=why):
        codec_of(address.format("a:b@"))


def test_a_proof_that_is_refused_is_not_tried_again():
    first = b"RTSP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\n\r\n"
    refused = pytest.raises(CameraFault, match="it refuses the user name or the password")
    with camera(first, first) as (address, asked), refused:
        codec_of(address.format("a:b@"))

    assert len(asked) == 2


@pytest.mark.parametrize("begun", [b"", b"RTSP/1.0 200 OK\r\n", b"RTSP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nv=0"])
def test_who_stops_in_the_middle_is_silent(begun):
    with camera(begun, stays=True) as (address, _):
        began = time.monotonic()
        with pytest.raises(CameraFault, match=r"silent: no answer within 0.3 s"):
            codec_of(address.format(""), within_s=0.3)

    assert time.monotonic() - began < 2


def test_another_answer_is_left_to_the_libraries():
    with camera(described("", "302 Found")) as (address, _):
        assert codec_of(address.format("")) == ""


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=200).map(lambda body: b"RTSP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n" + body),
        st.text(max_size=200).map(lambda text: described(f"m=video {text}")),
        st.text(max_size=100).map(
            lambda text: f"RTSP/1.0 401 No\r\nWWW-Authenticate: Digest {text}\r\n\r\n".encode("utf-8", "replace")
        ),
    )
)
@settings(deadline=None, max_examples=100)
def test_whatever_answers_there_is_a_codec_or_a_fault(answer):
    with camera(answer) as (address, _), suppress(CameraFault):
        codec = codec_of(address.format("a:b@"), within_s=2)
        assert isinstance(codec, str)
