"""Bodies of members of gangs on a real ledger: what their node does to them, and what stays of them there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jetq.model.job import JobState
from jetq.policy import gangsteps
from jetq.service.member import Member
from jetq.service.post import Post
from tests.store.test_gangs import Gangs


@pytest.fixture
def gangs(cluster) -> Gangs:
    return Gangs(cluster)


class One:
    """A gang of one node, reserved and claimed."""

    def __init__(self, gangs: Gangs, **spec) -> None:
        gangs.node("a")
        gangs.submit(1, **spec)
        gangs.reserve("a")
        (self.member,) = gangs.view().members
        self.token = gangs.claim(self.member)
        self.gangs, self.stop = gangs, threading.Event()

    def run(self, jobs_dir: Path):
        """Run its member to its end, and return what the leader then does."""
        url = "redis://127.0.0.1:1/0"  # only its interfaces are looked at
        post = Post(self.member.job_id, self.token, "a", self.stop, url, jobs_dir, None)
        self.gangs.settle(self.member, self.token, Member(self.gangs.store, post).run())
        return gangsteps.next_step(self.gangs.view(), self.gangs.store.time_s())


def test_a_node_on_which_no_folder_can_be_made_refuses_and_the_gang_goes_elsewhere(gangs, tmp_path):
    one = One(gangs)
    (tmp_path / "work").write_text("a file is where folders should be")

    step = one.run(tmp_path / "jobs")

    assert step.state is JobState.QUEUED
    assert "node a has no folder for it" in step.why
    assert dict(step.resting).keys() == {"a"}


def test_leases_of_ports_that_nobody_gave_back_do_not_stay_for_ever(gangs):
    one = One(gangs)
    assert gangs.store.lease_port("machine", 20001, one.member.job_id)
    assert gangs.store.lease_port("machine", 20001, one.member.job_id)
    assert not gangs.store.lease_port("machine", 20001, "g.1.1")

    assert 0 < gangs.store.client.ttl(f"{gangs.store.prefix}ports:machine") <= 24 * 3600
