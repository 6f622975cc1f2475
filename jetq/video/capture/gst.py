"""Cameras by OpenCV's GStreamer: with the board's decoder, or by the processor."""

from __future__ import annotations

import ctypes
from functools import cache

import cv2

from jetq.errors import CameraFault
from jetq.video.capture import pipelines
from jetq.video.capture.addresses import WEB
from jetq.video.capture.base import Source
from jetq.video.capture.opencv import OpenCvCapture, need, opened, version

#: Until the first frame (s). A board that waits too little for a key frame would decode by its processor ever after.
_FIRST_S = {True: 10.0, False: 6.0}
#: OpenCV whose GStreamer can be told how long to wait; before, it waits for half a minute, and the watchdog ends it.
_LIMITS_SINCE = (4, 7)


class _GstCapture(OpenCvCapture):
    """A camera by GStreamer."""

    hardware: bool

    def __init__(self, source: Source) -> None:
        """Open it, and wait for its first frame.

        Raises:
            CameraFault: it cannot be opened, or gives no frame.
        """
        need("GStreamer")
        faults: list[str] = []
        for codec, pipeline in _pipelines(source, hardware=self.hardware):
            try:
                _need_elements(pipelines.elements(pipeline))
                capture = opened(pipeline, cv2.CAP_GSTREAMER, self._limits(source))
                name = "gst-hw" if self.hardware else "gst-sw"
                super().__init__(capture, name, source, codec=codec, hardware=self.hardware and bool(codec))
                return
            except CameraFault as exc:
                faults.append(str(exc))
        raise CameraFault(faults[-1])

    def _limits(self, source: Source) -> tuple[int, ...]:
        if version() < _LIMITS_SINCE:
            return ()
        first_s = _FIRST_S[self.hardware]
        read_s = max(first_s, source.stall_s * 0.8)
        limits_ms = (int(first_s * 1000), int(read_s * 1000))
        return (cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, limits_ms[0], cv2.CAP_PROP_READ_TIMEOUT_MSEC, limits_ms[1])


class BoardGstCapture(_GstCapture):
    """With the board's own decoder."""

    hardware = True


class GstCapture(_GstCapture):
    """Decoded by the processor."""

    hardware = False


def _need_elements(names: list[str]) -> None:
    """Refuse at once what GStreamer has not: a pipeline that cannot be built makes some builds of OpenCV crash."""
    gst = _library()
    for name in names:
        factory = gst.gst_element_factory_find(name.encode())
        if not factory:
            raise CameraFault(f"GStreamer has no {name} on this machine")
        gst.gst_object_unref(factory)


@cache
def _library() -> ctypes.CDLL:
    try:
        gst = ctypes.CDLL("libgstreamer-1.0.so.0")
    except OSError as exc:
        raise CameraFault("GStreamer is not installed on this machine") from exc
    gst.gst_element_factory_find.argtypes, gst.gst_element_factory_find.restype = [ctypes.c_char_p], ctypes.c_void_p
    gst.gst_object_unref.argtypes, gst.gst_object_unref.restype = [ctypes.c_void_p], None
    if not gst.gst_init_check(None, None, None):
        raise CameraFault("GStreamer does not start on this machine")
    return gst


def _pipelines(source: Source, *, hardware: bool) -> list[tuple[str, str]]:
    """Return what may show it: the codec that is decoded, and the pipeline."""
    camera = source.camera
    if camera.scheme == "csi":
        return [("", pipelines.csi(int(camera.place), source.size))]
    if camera.scheme == "v4l2":
        kinds = [True] if hardware else [True, False]  # JPEG first: more of it fits through USB
        return [
            ("mjpeg" if jpeg else "", pipelines.usb(camera.place, source.size, jpeg=jpeg, hardware=hardware))
            for jpeg in kinds
        ]
    if camera.scheme in WEB:
        return [("mjpeg", pipelines.web(source.address))]
    known = pipelines.BOARD_CODECS if hardware else pipelines.CODECS
    if source.codec not in known:
        by = "the board's decoder" if hardware else "these pipelines"
        raise CameraFault(f"{source.codec or 'a codec that it does not name'} is nothing for {by}")
    return [(source.codec, pipelines.rtsp(source.address, source.codec, hardware=hardware))]
