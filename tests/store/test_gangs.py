"""Gangs in the ledger, call by call, on a real server: all nodes or none, one story for all members."""

from __future__ import annotations

import json

import pytest

from jetq import ids
from jetq.errors import NoSuchJob
from jetq.model.gang import GangSpec
from jetq.model.job import JobState
from jetq.model.members import Foreseen, Kept, Report
from jetq.model.needs import Needs
from jetq.model.survey import Judgement

TEMPLATE = '{"id": "@jetq-id@", "pub": "@jetq-pub@"}'


class Gangs:
    """A cluster with a leader that a test moves by hand."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self.epoch = ids.random64()
        self.term = self.store.lead("lead", self.epoch, lease_s=600).term

    def node(self, name: str, slots: int = 2) -> None:
        self.cluster.node(name, slots)
        self.store.client.sadd(f"{self.store.prefix}tasks:{name}", "gang.member")

    def submit(self, nodes: int = 2, job_id: str = "g", **spec) -> str:
        asked = GangSpec(("true",), nodes, nodes, **spec)
        return self.store.submit_gang(job_id, asked, TEMPLATE).verdict

    def view(self, job_id: str = "g"):
        return next(gang for gang in self.store.gangs() if gang.id == job_id)

    def reserve(self, *nodes: str, job_id: str = "g") -> str:
        return self.store.reserve(self.epoch, self.term, self.view(job_id), nodes, "its turn")

    def claim(self, member) -> str:
        pub = self.store.client.hget(f"{self.store.prefix}job:{member.job_id}", "pub").decode()
        got = self.store.claim(member.job_id, pub, member.node, self.cluster.epochs[member.node], f"c-{member.node}")
        assert got.verdict == "run", got
        return got.token

    def settle(self, member, token: str, report: Report | None = None) -> bool:
        text = json.dumps((report or Report(0)).as_json())
        return self.store.settle(member.job_id, token, f"c-{member.node}", "SUCCEEDED", result=text)

    def end(self, state: JobState, why: str = "", **how) -> bool:
        return self.store.end_gang(self.epoch, self.term, self.view(), state, why, **how)

    def state(self, job_id: str = "g") -> str:
        return self.store.job(job_id).state


@pytest.fixture
def gangs(cluster) -> Gangs:
    return Gangs(cluster)


def test_the_same_gang_is_taken_once_and_another_under_its_id_is_refused(gangs) -> None:
    assert gangs.submit() == "placed"
    assert gangs.submit() == "same"
    assert gangs.submit(3) == "refused"
    assert [gang.id for gang in gangs.store.gangs()] == ["g"]


def test_a_gang_is_reserved_on_all_its_nodes_at_once(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit(ranks=2)

    assert gangs.reserve("a", "b") == ""

    assert gangs.state() == "RESERVED"
    assert gangs.store.job("g").nodes == ["a", "b"]
    assert [gangs.cluster.used(node) for node in ("a", "b")] == [2, 2]
    assert [member.node for member in gangs.view().members] == ["a", "b"]
    for node, index in (("a", 0), ("b", 1)):
        assert gangs.cluster.length(f"processes.{node}") == 1
        message = json.loads(gangs.store.client.lindex(f"{gangs.store.prefix}processes.{node}\x06\x163", 0))
        assert message["id"] == f"g.1.{index}"


def test_where_one_node_has_no_room_nothing_is_held_anywhere(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.cluster.put(needs=Needs(("node=b",)))
    gangs.submit(ranks=2)

    assert gangs.reserve("a", "b") == "b"

    assert gangs.state() == "QUEUED"
    assert gangs.cluster.used("a") == 0
    assert gangs.cluster.length("processes.a") == 0
    assert gangs.view().members == ()


def test_a_node_that_does_not_know_how_to_run_members_gets_none(gangs) -> None:
    gangs.cluster.node("a")
    gangs.submit(1)

    assert gangs.reserve("a") == "a"
    assert next(iter(gangs.store.rooms())).why_not == "does not know the task gang.member"


def test_a_leader_whose_term_is_over_reserves_and_ends_nothing(gangs) -> None:
    gangs.node("a")
    gangs.submit(1)
    view, old = gangs.view(), gangs.term
    gangs.store.client.hset(f"{gangs.store.prefix}leader", "term", old + 1)

    assert gangs.store.reserve(gangs.epoch, old, view, ["a"], "late") == "gone"
    assert not gangs.store.stop_gang(gangs.epoch, old, view, "late")
    assert not gangs.store.end_gang(gangs.epoch, old, view, JobState.FAILED, "late")
    assert not gangs.store.foresee(gangs.epoch, old, [Kept("a", 2.0)], [])
    assert gangs.state() == "QUEUED"


def test_members_hear_each_other_once_all_have_spoken_and_the_first_that_begins_makes_it_run(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit()
    gangs.reserve("a", "b")
    a, b = gangs.view().members
    token_a, token_b = gangs.claim(a), gangs.claim(b)
    seat = gangs.store.part(b.job_id)
    assert (seat.gang_id, seat.index, seat.nodes, seat.attempt) == ("g", 1, ("a", "b"), 1)

    assert gangs.store.meet(a.job_id, token_a, "hello", "A") == ([], [1])
    assert gangs.state() == "PREPARING"
    assert gangs.view().arrived == {0}
    assert gangs.store.meet(b.job_id, token_b, "hello", "B") == (["A", "B"], [])
    assert gangs.store.meet(a.job_id, token_a, "hello", "A") == (["A", "B"], [])
    assert gangs.store.meet(b.job_id, token_b, "begin", "") == ([], [])
    gangs.store.meet(a.job_id, token_a, "begin", "")

    assert gangs.state() == "RUNNING"
    assert gangs.view().attempt == 1
    assert gangs.store.meet(a.job_id, "another token", "hello", "") == (None, [])


def test_the_story_of_a_gang_names_all_its_nodes(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit()
    gangs.reserve("a", "b")
    tokens = [gangs.claim(member) for member in gangs.view().members]
    for member, token in zip(gangs.view().members, tokens, strict=True):
        gangs.store.meet(member.job_id, token, "begin", "")
        gangs.settle(member, token)
    gangs.end(JobState.SUCCEEDED)

    told = [(event["what"], event["node"]) for event in gangs.store.job("g").history]
    assert told == [("reserved", "a b"), ("began", "a b"), ("ran", "a b")]


def test_a_gang_ends_when_all_members_have_and_not_before(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit()
    gangs.reserve("a", "b")
    a, b = gangs.view().members
    tokens = gangs.claim(a), gangs.claim(b)
    gangs.store.meet(a.job_id, tokens[0], "begin", "")
    gangs.settle(a, tokens[0])

    assert not gangs.end(JobState.SUCCEEDED), "b still runs"
    gangs.settle(b, tokens[1])
    assert gangs.end(JobState.SUCCEEDED)

    row = gangs.store.job("g")
    assert (row.state, row.exit_code) == ("SUCCEEDED", 0)
    assert gangs.store.gangs() == []
    assert gangs.cluster.used("a") == 0
    gangs.submit(job_id="next")
    assert len(gangs.view("next").runs_s) == 1


def test_a_gang_that_goes_back_keeps_its_age_and_its_bill(gangs) -> None:
    gangs.node("a")
    gangs.submit(1)
    before = gangs.view().submitted_s
    gangs.reserve("a")
    (member,) = gangs.view().members
    token = gangs.claim(member)
    gangs.settle(member, token, Report(1))

    assert gangs.end(
        JobState.QUEUED, "again", tally={"attempt": 1, "infra": 1, "app": 0}, not_before_s=5.0, bounds=(1, 1)
    )

    view = gangs.view()
    assert (view.state, view.submitted_s, view.members) == (JobState.QUEUED, before, ())
    assert (view.tally["infra"], view.not_before_s, view.starts) == (1, 5.0, 1)
    assert gangs.reserve("a") == ""
    assert gangs.view().members[0].job_id == "g.2.0"


def test_a_dead_node_loses_its_member_and_no_other_node_gets_it(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.node("spare")
    gangs.submit()
    gangs.reserve("a", "b")
    gangs.claim(gangs.view().members[0])

    dead = Judgement("a", gangs.cluster.epochs["a"], 1, "dead", "it was not heard of")
    assert gangs.store.judge(gangs.epoch, gangs.term, dead)

    a, b = gangs.view().members
    assert (a.state, a.cost, a.error) == (JobState.FAILED, "infra", "it was not heard of")
    assert b.state is JobState.ASSIGNED
    assert gangs.cluster.used("spare") == 0
    assert gangs.store.wait_for_bell(1)


def test_stopping_a_start_ends_what_is_unclaimed_and_asks_the_others(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit()
    gangs.reserve("a", "b")
    a = gangs.view().members[0]
    token = gangs.claim(a)

    assert gangs.store.stop_gang(gangs.epoch, gangs.term, gangs.view(), "rank 1 failed")

    assert gangs.cluster.beat("a", seq=2).cancel == ("c-a",)
    assert gangs.view().members[1].state is JobState.CANCELLED
    assert gangs.store.meet(a.job_id, token, "hello", "") == (None, [])
    assert gangs.settle(a, token, Report(stopped=True))
    assert gangs.cluster.beat("a", seq=3).cancel == ()
    assert gangs.view().stopping == "rank 1 failed"


def test_a_node_that_was_lost_is_the_cause_though_its_gang_was_stopped_before_it_was_missed(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit()
    gangs.reserve("a", "b")
    for member in gangs.view().members:
        gangs.claim(member)
    heard_s = float(gangs.store.client.hget(f"{gangs.store.prefix}node:a", "beat_at"))
    gangs.store.stop_gang(gangs.epoch, gangs.term, gangs.view(), "rank 1 on b exited with code 1")

    dead = Judgement("a", gangs.cluster.epochs["a"], 1, "dead", "it was not heard of")
    assert gangs.store.judge(gangs.epoch, gangs.term, dead)

    a = gangs.view().members[0]
    assert (a.cost, a.error, a.ended_s) == ("infra", "it was not heard of", heard_s)


def test_a_member_that_leaves_a_drained_node_is_charged_to_nobody(gangs) -> None:
    gangs.node("a")
    gangs.node("b")
    gangs.submit()
    gangs.reserve("a", "b")
    for member in gangs.view().members:
        gangs.claim(member)
    gangs.store.drain("a", "new disk", grace_s=0.0)
    gangs.store.evict("a", gangs.cluster.epochs["a"], "node a drains")
    gangs.store.stop_gang(gangs.epoch, gangs.term, gangs.view(), "a rank ended with its node")

    dead = Judgement("a", gangs.cluster.epochs["a"], 1, "dead", "it was not heard of")
    assert gangs.store.judge(gangs.epoch, gangs.term, dead)

    a = gangs.view().members[0]
    assert (a.cost, a.error) == ("none", "node a drains")


def test_members_that_shall_end_hear_when_no_rank_of_the_others_is_left(gangs) -> None:
    for name in "abc":
        gangs.node(name)
    gangs.submit(3)
    gangs.reserve("a", "b", "c")
    a, b, c = gangs.view().members
    gangs.claim(a)
    gangs.claim(b)

    assert not gangs.store.say_done(a.job_id)
    assert not gangs.store.say_done(b.job_id)
    gangs.store.lost(c.job_id, "c", None, "its node died")
    assert gangs.store.say_done(a.job_id)
    assert gangs.store.say_done(b.job_id)


def test_a_queued_gang_is_cancelled_at_once_and_a_running_one_with_all_its_members(gangs) -> None:
    gangs.node("a")
    gangs.submit(1, "waits")
    assert gangs.store.cancel("waits", "no").state == "CANCELLED"
    assert gangs.store.gangs() == []
    gangs.submit(1)
    gangs.reserve("a")
    (member,) = gangs.view().members
    token = gangs.claim(member)

    assert gangs.store.cancel(member.job_id, "enough").state == "RUNNING", "a member stands for its gang"
    gangs.settle(member, token, Report(stopped=True))
    assert gangs.end(JobState.SUCCEEDED), "too late: it was cancelled"

    row = gangs.store.job("g")
    assert (row.state, row.reason) == ("CANCELLED", "enough")


def test_what_is_kept_for_a_gang_is_not_for_others_unless_they_end_before(gangs) -> None:
    gangs.node("a")
    now_s = gangs.store.time_s()
    assert gangs.store.foresee(gangs.epoch, gangs.term, [Kept("a", 2.0, until_s=now_s + 60)], [])

    placed, job = gangs.cluster.put()
    assert placed.state == "QUEUED"
    assert gangs.cluster.claim(job, "a").verdict == "full", "nobody knows how long it takes"
    gangs.store.client.rpush(f"{gangs.store.prefix}runs:t.work:pc", 5, 300, 7)
    assert gangs.cluster.claim(job, "a").verdict == "run"

    gangs.store.foresee(gangs.epoch, gangs.term, [Kept("a")], [])
    assert gangs.cluster.put()[0].state == "ASSIGNED"


def test_what_is_foreseen_is_told_of_who_waits(gangs) -> None:
    gangs.submit()
    assert gangs.store.job("g").reason == "the leader has not looked at it yet"

    gangs.store.foresee(gangs.epoch, gangs.term, [], [Foreseen("g", 1234.5, "a is kept for it")])

    row = gangs.store.job("g")
    assert (row.expected_at, row.reason) == (1234.5, "a is kept for it")


def test_rooms_tell_who_holds_what_until_when(gangs) -> None:
    gangs.node("a", 4)
    gangs.store.client.rpush(f"{gangs.store.prefix}runs:t.work:pc", 100)
    gangs.cluster.put()
    gangs.submit(1, ranks=2, time_limit_s=50.0)
    gangs.reserve("a")

    (room,) = gangs.store.rooms()

    now_s = gangs.store.time_s()
    assert room.slots == 4
    assert room.idle_slots == 1
    ends = {hold.kind: hold.ends_s - now_s for hold in room.holds}
    assert ends["task"] == pytest.approx(100, abs=2)
    assert ends["gang"] == pytest.approx(25, abs=2)


def test_a_port_is_leased_to_one_member_of_a_machine(gangs) -> None:
    gangs.node("a")
    gangs.submit(1)
    gangs.reserve("a")
    (member,) = gangs.view().members

    assert gangs.store.lease_port("here", 20001, member.job_id)
    assert not gangs.store.lease_port("here", 20001, "other")
    assert gangs.store.lease_port("there", 20001, "other")
    token = gangs.claim(member)
    gangs.settle(member, token)
    assert gangs.store.lease_port("here", 20001, "other"), "its holder has ended"


def test_lines_are_read_on_from_where_one_was(gangs) -> None:
    gangs.store.tell_lines("g", "a", [(0, "one"), (None, "two")])
    after, lines = gangs.store.gang_lines("g")
    assert [(line.rank, line.text, line.node) for line in lines] == [(0, "one", "a"), (None, "two", "a")]
    gangs.store.tell_lines("g", "b", [(1, "three")])

    assert [line.text for line in gangs.store.gang_lines("g", after)[1]] == ["three"]
    assert gangs.store.gang_lines("nobody") == ("", [])


def test_lines_are_numbered_so_that_who_reads_late_knows_what_it_missed(gangs) -> None:
    gangs.store.tell_lines("g", "a", [(0, str(number)) for number in range(1, 5001)])
    after, lines = gangs.store.gang_lines("g", limit=1)

    assert int(after.partition("-")[0]) == int(lines[0].text)
    assert 1 < int(lines[0].text) <= 1001
    assert gangs.store.gang_lines("g", "4999-0")[0] == "5000-0"


def test_progress_is_kept_of_gangs_that_are_there_only(gangs) -> None:
    gangs.store.tell_lines("nobody", "a", [], '{"step": 1}')

    assert gangs.store.job("nobody") is None


def test_a_launch_request_is_answered_to_who_asked(gangs) -> None:
    assert gangs.store.launches("token", "10.0.0.2") == {}
    asked = gangs.store.ask_launch("token", "10.0.0.2", ["10.0.0.2", "prted --x"])
    assert gangs.store.launched(asked) is None

    assert gangs.store.launches("token", "10.0.0.2") == {asked: ["10.0.0.2", "prted --x"]}
    gangs.store.answer_launch(asked, 3, "text")
    assert gangs.store.launched(asked) == (3, "text")


def test_who_is_no_member_has_no_seat(gangs) -> None:
    _, job = gangs.cluster.put()

    with pytest.raises(NoSuchJob):
        gangs.store.part(job.job_id)


def test_a_gang_that_stands_nowhere_is_found_by_the_audit(gangs) -> None:
    gangs.submit()
    gangs.store.client.delete(f"{gangs.store.prefix}gangs")

    assert gangs.store.audit(gangs.epoch, gangs.term, "", limit=10)[1] == ["g"]
    assert gangs.view().id == "g"


def test_a_gang_of_another_version_of_jetq_does_not_hold_up_the_others(gangs) -> None:
    gangs.submit(job_id="new")
    spec = json.loads(gangs.store.client.hget(f"{gangs.store.prefix}job:new", "spec"))
    gangs.store.client.hset(f"{gangs.store.prefix}job:new", "spec", json.dumps(spec | {"colour": "red"}))
    gangs.submit(job_id="old")

    assert [gang.id for gang in gangs.store.gangs()] == ["old"]
    row = gangs.store.job("new")
    assert row.state == "CANCELLED"
    assert "colour" in row.reason


def test_a_report_that_cannot_be_read_is_a_failure_of_the_member(gangs) -> None:
    gangs.node("a")
    gangs.submit(1)
    gangs.reserve("a")
    (member,) = gangs.view().members
    token = gangs.claim(member)
    gangs.store.settle(member.job_id, token, "c-a", "SUCCEEDED", result='"well"')

    (member,) = gangs.view().members

    assert (member.report, member.cost) == (None, "app")
    assert "cannot be read" in member.error
