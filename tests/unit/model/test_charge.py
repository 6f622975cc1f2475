"""What a seat is charged with, and how it ends, as the ledger keeps it."""

from __future__ import annotations

import json

import pytest

from jetq.model.charge import End, secrets_as_text, secrets_of
from jetq.model.credentials import Secret
from jetq.model.stream import wish

CAMERA, HOOK = "rtsp://admin:geheim@cam/1", "webhook:https://there/in?token=abc123"


def test_an_end_is_read_as_it_was_told():
    end = End("failed", "no video in it", "Traceback")

    assert End.parse(json.dumps(end.as_json())) == end


@pytest.mark.parametrize("text", ["", "null", '"well"', "{}", '{"how": "over"}', "[1]"])
def test_what_is_no_end_raises(text):
    with pytest.raises((ValueError, TypeError, KeyError)):
        End.parse(text)


def test_credentials_are_kept_by_address():
    spec, secrets = wish({"uri": CAMERA, "sinks": [HOOK, "jsonl"]})

    kept = secrets_as_text(spec, secrets)

    assert list(kept) == ["rtsp://***@cam/1", "https://there/in?token=***"]
    assert secrets_of(kept) == secrets
    assert secrets["rtsp://***@cam/1"] == Secret("admin", "geheim")


def test_an_address_that_hides_what_nobody_has_given_is_named():
    spec, secrets = wish({"uri": "rtsp://***@cam/1"})

    assert secrets_as_text(spec, secrets) == {"rtsp://***@cam/1": ""}


def test_who_hides_nothing_keeps_nothing():
    assert secrets_as_text(*wish({"uri": "rtsp://cam/1", "sinks": ["webhook:https://there/in"]})) == {}


def test_the_same_credentials_are_the_same_text():
    assert secrets_as_text(*wish({"uri": CAMERA})) == secrets_as_text(*wish({"uri": CAMERA}))
