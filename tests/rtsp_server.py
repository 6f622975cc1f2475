"""Be a set of network cameras: a real RTSP server of GStreamer. Run with the system's Python; see tests/cameras.py.

argv[1] is JSON: address, port (0: a free one), user, password ("" for none), digest (bool: the credentials never
travel), tls (a PEM file, "" for none), and cameras, a list of path, codec (h264, h265, mjpeg), width, height, fps,
pattern, gop and sound. Once it listens it writes its port to stdout, and then serves until it is killed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib, Gst, GstRtspServer  # noqa: E402 - the versions come first

_ENCODERS = {
    "h264": "x264enc tune=zerolatency speed-preset=ultrafast key-int-max={gop} threads=1 ! rtph264pay name=pay0 pt=96",
    "h265": "x265enc tune=zerolatency speed-preset=ultrafast key-int-max={gop} ! rtph265pay name=pay0 pt=96",
    "mjpeg": "jpegenc ! rtpjpegpay name=pay0 pt=26",
}
_SOUND = " audiotestsrc is-live=true ! alawenc ! rtppcmapay name=pay{n} pt=8"


def launch(camera: dict[str, Any]) -> str:
    """Return the pipeline of one camera."""
    if not camera["codec"]:
        return f"({_SOUND.format(n=0)} )"
    drawn = (
        "videotestsrc is-live=true pattern={pattern} ! "
        "video/x-raw,format=I420,width={width},height={height},framerate={fps}/1 ! "
    )
    sound = _SOUND.format(n=1) if camera["sound"] else ""
    return f"( {(drawn + _ENCODERS[camera['codec']]).format(**camera)}{sound} )"


def auth(user: str, password: str, *, digest: bool) -> GstRtspServer.RTSPAuth:
    """Return who may watch."""
    keeper = GstRtspServer.RTSPAuth()
    if digest:
        keeper.set_supported_methods(digest_method())
        keeper.add_digest(user, password, watcher())
    else:
        keeper.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), watcher())
    return keeper


def watcher() -> GstRtspServer.RTSPToken:
    """Return what whoever may watch is given."""
    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "watcher")
    return token


def digest_method() -> Any:
    """Return the constant of digest authentication, which another library has."""
    gi.require_version("GstRtsp", "1.0")
    return gi.repository.GstRtsp.RTSPAuthMethod.DIGEST


def main(plan: dict[str, Any]) -> None:
    """Serve."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address(plan["address"])
    server.set_service(str(plan["port"]))
    keeper = auth(plan["user"], plan["password"], digest=plan["digest"]) if plan["user"] else None
    if plan["tls"]:
        if keeper is None:
            keeper = GstRtspServer.RTSPAuth()
            keeper.set_default_token(watcher())
        keeper.set_tls_certificate(Gio.TlsCertificate.new_from_file(plan["tls"]))
    if keeper is not None:
        server.set_auth(keeper)
    for camera in plan["cameras"]:
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(launch(camera))
        factory.set_shared(True)
        if keeper is not None:
            allowed = GstRtspServer.RTSPPermissions()
            for what in ("media.factory.access", "media.factory.construct"):
                allowed.add_permission_for_role("watcher", what, True)
            factory.set_permissions(allowed)
        server.get_mount_points().add_factory(f"/{camera['path']}", factory)
    if not server.attach(None):
        sys.exit(f"cannot listen at {plan['address']}:{plan['port']}")
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
