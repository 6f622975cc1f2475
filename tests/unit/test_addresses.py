"""How others reach this machine."""

from __future__ import annotations

import pytest

from jetq.addresses import address_towards, is_loopback


@pytest.mark.parametrize("url", ["redis://127.0.0.1:6379/0", "redis://localhost", "unix:///run/redis.sock", ""])
def test_a_broker_on_this_machine_is_reached_from_loopback(url: str):
    assert address_towards(url) in ("127.0.0.1", "::1")


@pytest.mark.parametrize(
    ("host", "is_ours"), [("127.0.0.1", True), ("::1", True), ("10.0.0.7", False), ("0.0.0.0", False), ("board", False)]
)
def test_loopback_is_an_address_never_a_name(host: str, is_ours: bool):
    assert is_loopback(host) == is_ours
