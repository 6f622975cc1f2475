"""Addresses of cameras: one spelling of each, and a clear word about all others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.errors import UsageError
from jetq.model.camera_uri import EXAMPLES, allowed, check_allowed, parse
from jetq.model.credentials import put_together


@pytest.mark.parametrize("example", EXAMPLES.values())
def test_each_example_is_an_address_in_its_one_spelling(example):
    camera, secret = parse(example)

    assert (camera.shown, secret) == (example, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("RTSP://Cam.Local:554/Stream1", "rtsp://cam.local:554/Stream1"),
        ("rtsp://@cam/1", "rtsp://cam/1"),
        ("rtsp://[FE80::1%25eth0]:554/1", "rtsp://[fe80::1%25eth0]:554/1"),
        ("v4l2:///dev/video0", "v4l2:/dev/video0"),
        ("v4l2:/dev/v4l/by-id/usb-046d_C920-video-index0", "v4l2:/dev/v4l/by-id/usb-046d_C920-video-index0"),
        ("csi://01", "csi:1"),
        ("file:///data/a%20b.mp4", "file:/data/a b.mp4"),
        ("file:/data/100%/x.mp4", "file:/data/100%/x.mp4"),
        ("file:/data/../etc//x", "file:/etc/x"),
        ("test:bars", "test:bars?size=640x360&fps=15"),
        ("test:ball?fps=7.5", "test:ball?size=640x360&fps=7.5"),
    ],
)
def test_every_other_spelling_becomes_the_one(text, shown):
    assert parse(text)[0].shown == shown
    assert parse(shown)[0].shown == shown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs the address of its camera"),
        (7, "needs the address of its camera"),
        ("/dev/video0", "write v4l2:/dev/video0"),
        ("0", "write v4l2:/dev/video0 for a USB camera, csi:0"),
        ("/data/a.mp4", "write file: and the whole path"),
        ("clip.mp4", "no address of a camera"),
        ("rtmp://cam/1", "jetq opens no rtmp: cameras"),
        ("rtsp:cam/1", "write //"),
        ("rtsp:///1", "needs a host"),
        ("rtsp://cam/a b", "write a space as %20"),
        ("rtsp://cam/a\nb", "a space or a control character"),
        ("rtsp://cam/" + "x" * 2048, "2048 is the most"),
        ("v4l2:/dev/../etc/passwd", "named by its device"),
        ("v4l2:video0", "named by its device"),
        ("csi:16", "csi:0 to csi:15"),
        ("csi:x", "csi:0 to csi:15"),
        ("file:clip.mp4", "its whole path"),
        ("file:/data/", "its whole path"),
        ("file://nas/clip.mp4", "without a host"),
        ("file:///a%00b", "control character"),
        ("test:cube", "draws ball, bars, noise, still"),
        ("test:ball?size=0x0", "a size is WIDTHxHEIGHT"),
        ("test:ball?fps=0", "fps must be a number above 0"),
        ("test:ball?fps=1000", "fps must be a number above 0, up to 240"),
        ("test:ball?fps=nan", "fps must be a number above 0"),
        ("test:ball?speed=2", "takes size and fps"),
        ("test:ball?fps=1&fps=2", "once each"),
    ],
)
def test_what_is_no_camera_is_told_what_to_write(text, says):
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        parse(text)


@given(st.sampled_from([*EXAMPLES, "ftp"]), st.text("ab:/@?#%.[]&=* ~_01\n", max_size=30))
def test_whatever_is_written_is_refused_or_has_one_spelling_without_its_credentials(scheme, rest):
    try:
        camera, secret = parse(f"{scheme}:{rest}")
    except UsageError:
        return
    again, none = parse(camera.shown)
    assert (again, none) == (camera, None)
    assert parse(put_together(camera.shown, secret)) == (camera, secret) or not secret


def test_local_cameras_are_known():
    assert [scheme for scheme, example in EXAMPLES.items() if parse(example)[0].local] == ["v4l2", "csi"]


@pytest.mark.parametrize(
    ("uri", "stream_allow", "may"),
    [
        ("file:/etc/x.mp4", [], True),
        ("file:/data/x.mp4", ["/data"], True),
        ("file:/data/x.mp4", ["/data/"], True),
        ("file:/data/../etc/x.mp4", ["/data"], False),
        ("file:/database/x.mp4", ["/data"], False),
        ("file:/data/x.mp4", ["file:*.mp4"], True),
        ("file:/x.mp4", ["/"], True),
        ("rtsp://bob:pw@192.168.1.20/1", ["rtsp://192.168.1.*"], True),
        ("rtsp://192.168.1.20:pw@evil/1", ["rtsp://192.168.1.*"], False),
        ("rtsp://cam/1", ["/data"], False),
        ("csi:0", ["/data", "csi:?"], True),
        ("test:ball", ["test:*"], True),
        ("rtsp://c/1", ["[a-z]*"], False),
    ],
)
def test_a_node_opens_what_its_list_names(uri, stream_allow, may):
    why = allowed(parse(uri)[0], stream_allow)

    assert (why == "") is may
    assert may or "stream_allow" in why


def test_a_link_leads_out_of_no_folder():
    camera = parse("file:/data/link.mp4")[0]

    assert allowed(camera, ["/data"], real_path="/data/x.mp4") == ""
    assert allowed(camera, ["/data"], real_path="/etc/shadow")
    assert allowed(camera, ["file:/data/*"], real_path="/etc/shadow")


@pytest.mark.parametrize(
    "entry", ["/data", "*", "rtsp*", "rtsp://192.168.1.*", "csi:*", "file:/data/*", "test:*", "?tsp://x"]
)
def test_a_list_of_what_streams_may_open_takes_folders_and_patterns(entry):
    check_allowed(entry)


@pytest.mark.parametrize("entry", ["", "clips", "./clips", "rtsp", "ftp://x/*", "192.168.1.*", "x*"])
def test_an_entry_that_could_allow_nothing_is_refused(entry):
    with pytest.raises(UsageError, match="allows nothing"):
        check_allowed(entry)


def test_a_list_of_what_streams_may_open_holds_no_credentials():
    with pytest.raises(UsageError, match="no credentials") as caught:
        check_allowed("rtsp://admin:hunter22@cam/*")

    assert "hunter22" not in str(caught.value)
