"""Credentials of cameras: taken apart, put together again, and in no text."""

from __future__ import annotations

import json
import time
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.errors import UsageError
from jetq.model.camera_uri import parse
from jetq.model.credentials import Secret, put_together, redact, take_apart

PASSWORD = "tr0ub4dor&3"
#: What people put into passwords, as an address has to spell it or not.
ADDRESSES = [
    (f"rtsp://admin:{PASSWORD}@cam/1", "rtsp://***@cam/1"),
    (f"rtsp://admin:a@b{PASSWORD}@cam:554/1?channel=2", "rtsp://***@cam:554/1?channel=2"),
    (f"http://cam/mjpg?usr=admin&pwd={PASSWORD.replace('&', '%26')}&rate=5", "http://cam/mjpg?usr=***&pwd=***&rate=5"),
    (
        "rtsp://cam/user=admin_password=tlJw_pbo6_channel=1_stream=0.sdp",
        "rtsp://cam/user=***_password=***_channel=1_stream=0.sdp",
    ),
    ("https://cam/mjpg?access_token=abcdef", "https://cam/mjpg?access_token=***"),
]


@pytest.mark.parametrize(("address", "shown"), ADDRESSES)
def test_the_shown_address_holds_no_secret_and_the_secret_puts_it_together_again(address, shown):
    camera, secret = parse(address)

    assert camera.shown == shown
    assert secret is not None
    opened = put_together(shown, secret)
    assert parse(opened) == (camera, secret)
    assert not any(form in shown for form in secret.forms)


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_any_user_and_password_survive(user, password):
    secret = Secret(user, password)
    address = put_together("rtsp://***@cam/1", secret)

    assert take_apart(address) == ("rtsp://***@cam/1", secret)


@pytest.mark.parametrize(
    "address",
    ["rtsp://admin:12/34@cam/1", "rtsp://admin:12#34@cam/1", "rtsp://admin:12?34@cam/1", "rtsp://admin:s3cret/1"]
    + [f"rtsp://admin:s3cret@{host}/1" for host in ("", "a b", "cam:x", "cam:99999", "cam:0", "[::1", "-")]
    + ["rtsp://admin:s3cret@cam/a@b", "hdfs://admin:s3cret@cam/1", "rtsp:admin:s3cret@cam"],
)
def test_what_is_refused_tells_no_secret(address):
    with pytest.raises(UsageError) as caught:
        parse(address)

    said = "".join(traceback.format_exception(caught.value))
    assert not any(secret in said.replace("address,", "") for secret in ("s3cret", "12/34", "12#34", "12?34"))


def test_a_shown_address_is_one_too_and_waits_for_its_secret():
    camera, secret = parse("rtsp://***@cam/1?token=***")

    assert (camera.shown, secret, camera.hides) == ("rtsp://***@cam/1?token=***", None, True)
    assert not parse("rtsp://cam/1")[0].hides
    with pytest.raises(UsageError, match="are missing"):
        put_together(camera.shown, None)
    with pytest.raises(UsageError, match="are missing"):
        put_together("rtsp://cam/1?token=***&key=***", Secret("a", "b", ("c",)))
    with pytest.raises(UsageError, match="write all, or none"):
        parse("rtsp://***@cam/1?token=abc")


def test_texts_lose_every_spelling_of_a_known_secret():
    secret = Secret("admin", 'p"a/ss wörd', ("k3y%2F",))
    texts = [
        f"could not open {put_together('rtsp://***@cam/1?token=***', secret)}",
        json.dumps({"password": secret.password}),
        repr(f"login with {secret.password!r}"),
        "Authorization: Basic YWRtaW46cCJhL3NzIHfDtnJk",
        "raw k3y/ and k3y%2F",
    ]

    for text in texts:
        clean = redact(text, [secret])
        assert not any(form in clean for form in secret.forms)
        assert "***" in clean


def test_texts_lose_secrets_that_nobody_knew():
    assert redact("open rtsp://a:b@c@cam/1 failed") == "open rtsp://***@cam/1 failed"
    assert redact("GET /mjpg?usr=bob&pwd=x HTTP/1.1") == "GET /mjpg?usr=***&pwd=*** HTTP/1.1"
    assert redact("'authorization': 'Digest abc'") == "'authorization': 'Digest ***'"
    assert redact("a stream of 12 frames, 3 keyframes at http://cam/1") == (
        "a stream of 12 frames, 3 keyframes at http://cam/1"
    )


def test_a_secret_shows_itself_nowhere_and_crosses_the_wire_whole():
    secret = Secret("admin", PASSWORD, ("abc",))

    assert repr(secret) == str(secret) == f"{secret}" == "Secret(***)"
    assert Secret.from_json(json.loads(json.dumps(secret.as_json()))) == secret


def test_long_texts_are_cleaned_in_time():
    hostile = ["a_" * 10_000, "A" * 20_000, "rtsp://" * 3_000, "password_" * 2_000, "_a=" * 6_000]

    began_s = time.process_time()
    for text in hostile:
        redact(text)
    assert time.process_time() - began_s < 5.0
