"""Bodies of members of gangs on a real ledger: what their node does to them, and what stays of them there."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from jetq import process
from jetq.model.gang import GangSpec
from jetq.model.job import JobState
from jetq.model.members import Fault, Report
from jetq.policy import gangsteps
from jetq.service import belonging
from jetq.service.desk import Desk
from jetq.service.member import Member
from jetq.service.post import Post
from tests.store.test_gangs import TEMPLATE, Gangs


@pytest.fixture
def gangs(cluster) -> Gangs:
    return Gangs(cluster)


class One:
    """A gang of one node, reserved and claimed."""

    def __init__(self, gangs: Gangs, *argv: str) -> None:
        gangs.node("a")
        gangs.store.submit_gang("g", GangSpec(argv or ("true",), launcher="mpirun", as_root=True), TEMPLATE)
        gangs.reserve("a")
        (self.member,) = gangs.view().members
        self.token = gangs.claim(self.member)
        self.gangs, self.stop = gangs, threading.Event()

    def post(self, folder: Path) -> Post:
        """Return its post on a node whose folders are there."""
        url = "redis://127.0.0.1:1/0"  # only the way to it is looked at
        return Post(self.member.job_id, self.token, "a", self.stop, url, folder / "jobs", None)

    def run(self, folder: Path):
        """Run its member to its end, and return what the leader then does."""
        self.gangs.settle(self.member, self.token, Member(self.gangs.store, self.post(folder)).run())
        return gangsteps.next_step(self.gangs.view(), self.gangs.store.time_s())


def test_a_node_on_which_no_folder_can_be_made_refuses_and_the_gang_goes_elsewhere(gangs, tmp_path):
    one = One(gangs)
    (tmp_path / "work").write_text("a file is where folders should be")

    step = one.run(tmp_path)

    assert step.state is JobState.QUEUED
    assert "node a has no folder for it" in step.why
    assert dict(step.resting).keys() == {"a"}


def test_leases_of_ports_that_nobody_gave_back_do_not_stay_for_ever(gangs):
    one = One(gangs)
    assert gangs.store.lease_port("machine", 20001, one.member.job_id)
    assert gangs.store.lease_port("machine", 20001, one.member.job_id)
    assert not gangs.store.lease_port("machine", 20001, "g.1.1")

    assert 0 < gangs.store.client.ttl(f"{gangs.store.prefix}ports:machine") <= 24 * 3600


def test_a_member_that_the_ledger_knows_no_more_ends_what_it_runs(gangs, tmp_path, monkeypatch, wait_until):
    monkeypatch.setattr(belonging, "EVERY_S", 0.1)
    one = One(gangs, "sleep", "600")
    found = []
    body = threading.Thread(target=lambda: found.append(Member(gangs.store, one.post(tmp_path)).run()))
    body.start()
    wait_until(
        lambda: gangs.state() == "RUNNING" and process.carriers(JETQ_MEMBER="g.1.0"), within_s=20, what="its ranks"
    )

    gangs.store.client.delete(f"{gangs.store.prefix}job:{one.member.job_id}")  # as a server that lost its last writes
    body.join(20)

    assert [report.stopped for report in found] == [True]
    assert process.carriers(JETQ_MEMBER="g.1.0") == []


def test_a_gang_does_not_start_while_a_start_that_was_lost_still_runs_somewhere(gangs):
    gangs.node("a")
    gangs.node("b")
    gangs.submit(1)
    gangs.cluster.beat("b", seq=2, running=(("g.1.0", "c-b"),))

    assert gangs.reserve("a") == "b"
    assert gangs.state() == "QUEUED"
    assert gangs.cluster.used("a") == 0

    gangs.cluster.beat("b", seq=3)
    assert gangs.reserve("a") == ""


def test_a_start_whose_members_have_ended_holds_up_no_other_though_a_beat_still_tells_of_them(gangs):
    one = One(gangs)
    gangs.settle(one.member, one.token, Report(stopped=True))
    gangs.end(JobState.QUEUED, "again")
    gangs.cluster.beat("a", seq=2, running=((one.member.job_id, "c-a"),))

    assert gangs.reserve("a") == ""


def test_other_work_may_have_an_id_like_that_of_a_member(gangs):
    gangs.node("a")
    gangs.submit(1)
    _, parcel = gangs.cluster.put("g.1.0")

    assert gangs.reserve("a") == ""

    assert [member.job_id for member in gangs.view().members] == ["g.2.0"]
    assert gangs.store.job(parcel.job_id).name == "t.work"
    assert gangs.cluster.put("g.2.0")[0].verdict == "refused"


def test_bytes_that_are_no_characters_hold_up_no_gang(gangs):
    one = One(gangs, "\udcff")
    gangs.settle(
        one.member, one.token, Report(faults=(Fault(1.0, "app", "\udcff is not installed \ud800ä", node="a"),))
    )
    step = gangsteps.next_step(gangs.view(), gangs.store.time_s())

    assert gangs.end(step.state, step.why, exit_code=1, tail=["\udcff"])

    assert gangs.store.job("g").error.endswith("? is not installed ?ä")


def test_a_launch_agent_that_is_called_with_bytes_that_are_no_characters_ends_no_desk(gangs, tmp_path, wait_until):
    with Desk(gangs.store, "token", tmp_path):
        for said in (b"\xff\0/x/prted \xff", b"a\0/x/prted"):
            caller = socket.socket(socket.AF_UNIX)
            caller.connect(str(tmp_path / "launch"))
            caller.sendall(said)
            caller.shutdown(socket.SHUT_WR)
            host = said[:1].decode(errors="replace").replace("\ufffd", "?")
            wait_until(lambda host=host: gangs.store.launches("token", host), what=f"the request for {host}")
            caller.close()


@pytest.mark.parametrize(
    "spec", ["{", "null", "[]", "{}", '{"argv": ["true"], "future": 1}', '{"argv": ["true"], "env": 3}']
)
def test_a_gang_whose_record_makes_no_sense_is_cancelled_and_holds_up_no_other(gangs, spec):
    gangs.submit(job_id="g")
    gangs.submit(job_id="odd")
    gangs.store.client.hset(f"{gangs.store.prefix}job:odd", "spec", spec)

    assert [gang.id for gang in gangs.store.gangs()] == ["g"]

    assert gangs.state("odd") == "CANCELLED"
    gangs.store.keep_needed()


def test_ranks_find_the_folders_that_they_are_told_of(gangs, tmp_path):
    one = One(gangs, "sh", "-c", 'test -d "$JETQ_CKPT_DIR" && test -d "$JETQ_FILES_DIR" && test . -ef "$JETQ_WORKDIR"')

    assert one.run(tmp_path).state is JobState.SUCCEEDED
