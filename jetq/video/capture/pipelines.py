"""Pipelines of GStreamer, as text. Pure. Each thing from outside stands in quotes, or is a number or a known word."""

from __future__ import annotations

from jetq.video.capture.addresses import ANSWER_S, plain

#: What follows the camera, for each codec: out of its packets, and into the decoder.
_UNPACK = {
    "h264": "rtph264depay ! h264parse",
    "h265": "rtph265depay ! h265parse",
    "mjpeg": "rtpjpegdepay",
}
_BOARD = "nvv4l2decoder enable-max-performance=1"
_PROCESSOR = {"h264": "avdec_h264 max-threads=1", "h265": "avdec_h265 max-threads=1", "mjpeg": "jpegdec"}
#: Codecs of network cameras for which there are pipelines.
CODECS = frozenset(_UNPACK)
#: Codecs that a board's decoder takes; JPEG pictures are the processor's.
BOARD_CODECS = frozenset({"h264", "h265"})
#: The board's own converter, which leaves one channel to be dropped by the processor.
_FROM_BOARD = "nvvidconv ! video/x-raw,format=BGRx ! videoconvert"
_FROM_PROCESSOR = "videoconvert"
#: One picture is kept, the newest.
_SINK = "video/x-raw,format=BGR ! appsink max-buffers=1 drop=true sync=false"
#: How long packets are put in order (ms). Over TCP they are: it only evens them out.
_LATENCY_MS = 100


def quoted(text: str) -> str:
    """Return an address as one value of a property, whatever it holds."""
    return f'"{plain(text)}"'


def elements(pipeline: str) -> list[str]:
    """Return the names of the elements of a pipeline, without the formats between them."""
    words = [part.split(maxsplit=1)[0] for part in pipeline.split(" ! ")]
    return [word for word in words if "/" not in word]


def rtsp(address: str, codec: str, *, hardware: bool) -> str:
    """Return what shows a network camera of ``h264``, ``h265`` or ``mjpeg``. Certificates are not checked."""
    limit_us = int(ANSWER_S * 1e6)
    safe = " tls-validation-flags=0" if address.startswith("rtsps:") else ""
    return _joined(
        f"rtspsrc location={quoted(address)} protocols=tcp latency={_LATENCY_MS} drop-on-latency=true "
        f"tcp-timeout={limit_us}{safe}",
        "application/x-rtp,media=video",
        _UNPACK[codec],
        _BOARD if hardware else _PROCESSOR[codec],
        _FROM_BOARD if hardware else _FROM_PROCESSOR,
    )


def web(address: str) -> str:
    """Return what shows a camera that sends JPEG pictures over HTTP."""
    source = f"souphttpsrc location={quoted(address)} is-live=true do-timestamp=true timeout={int(ANSWER_S)}"
    safe = " ssl-strict=false" if address.startswith("https:") else ""
    return _joined(source + safe, "multipartdemux ! image/jpeg", _PROCESSOR["mjpeg"], _FROM_PROCESSOR)


def usb(device: str, size: tuple[int, int] | None, *, jpeg: bool, hardware: bool) -> str:
    """Return what shows a USB camera: its JPEG pictures, decoded, or its raw ones."""
    kind = ("image/jpeg" if jpeg else "video/x-raw") + _sized(size)
    decoder = [f"{_BOARD} mjpeg=1" if hardware else _PROCESSOR["mjpeg"]] if jpeg else []
    return _joined(f"v4l2src device={quoted(device)}", kind, *decoder, _FROM_BOARD if hardware else _FROM_PROCESSOR)


def csi(sensor: int, size: tuple[int, int] | None) -> str:
    """Return what shows a camera on the board's own connector."""
    return _joined(f"nvarguscamerasrc sensor-id={sensor}", f"video/x-raw(memory:NVMM){_sized(size)}", _FROM_BOARD)


def _sized(size: tuple[int, int] | None) -> str:
    return "" if size is None else f",width={size[0]},height={size[1]}"


def _joined(*elements: str) -> str:
    return " ! ".join([*elements, _SINK])
