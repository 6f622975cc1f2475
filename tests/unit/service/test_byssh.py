"""The way by ssh is tried before anything runs: what is said where it does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetq.launch.base import Member
from jetq.launch.ssh import ENVIRONMENT
from jetq.service import byssh

MEMBERS = [
    Member(name, address, "10.0.0.0/24", "eth0", f"/var/{name}", 2.0)
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.2"), ("d", "10.0.0.1"))
]


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Give ``ssh(script)``: what is found on PATH under that name."""

    def put(script: str) -> None:
        (tmp_path / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "ssh").chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return put


def test_each_other_machine_is_logged_into_once(ssh, tmp_path):
    ssh(f'echo "$@" >> {tmp_path}/calls')

    assert byssh.why_not(MEMBERS) == {}
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("-o ConnectionAttempts=1 -o BatchMode=yes -o ConnectTimeout=5 ")
    assert call.endswith(f" 10.0.0.2 test -r /var/b/{ENVIRONMENT} || exit 3")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            'echo "a banner" >&2; echo "ssh: Host key verification failed." >&2; exit 255',
            "(Host key verification failed.)",
        ),
        ("sleep 2 & exit 255", "does not get in (exit code 255)"),
        ("exit 3", "ssh from a to 10.0.0.2 does not find /var/b there"),
        ("exit 1", "does not get in (exit code 1)"),
        ("exec sleep 60", "no answer within 0.3 s"),
    ],
)
def test_the_node_that_is_not_reached_is_named_with_what_ssh_said(ssh, monkeypatch, script, said):
    monkeypatch.setattr(byssh, "LOGIN_S", 0.3)
    ssh(script)

    found = byssh.why_not(MEMBERS)

    assert list(found) == ["b"]
    assert said in found["b"]
    assert "\n" not in found["b"]


def test_a_head_without_ssh_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "ssh is not installed" in byssh.why_not(MEMBERS)["a"]


def test_what_a_member_leaves_is_for_its_user_alone(tmp_path):
    byssh.leave(tmp_path, {"JETQ_TOKEN": "it's"})

    left = tmp_path / ENVIRONMENT
    assert left.stat().st_mode & 0o777 == 0o600
    assert Path(left).read_text() == "export JETQ_TOKEN='it'\"'\"'s'\n"
