"""Streams in the ledger, call by call, on a real server: one owner, or none, and results of nobody else."""

from __future__ import annotations

import json

import pytest

from jetq.errors import BrokerUnsure, NoSuchJob, PublishRefused
from jetq.model.charge import End
from jetq.model.credentials import Secret
from jetq.model.job import JobState
from jetq.model.needs import Needs
from jetq.policy.streamcost import Load
from jetq.store.streaming import Weight
from tests.store.streams_by_hand import TEMPLATE, Streams, spec

CAMERA = "rtsp://admin:geheim@cam/1"
SHOWN = "rtsp://***@cam/1"
HOOK = "webhook:https://u:hook-pass@there/in"
HOOK_SHOWN = "webhook:https://***@there/in"


@pytest.fixture
def streams(cluster) -> Streams:
    made = Streams(cluster)
    made.node("a")
    made.node("b")
    return made


# A producer ---------------------------------------------------------------------------------------------------------


def test_the_same_stream_is_taken_once_and_what_differs_changes_it(streams) -> None:
    assert streams.submit(fps=15).verdict == "placed"
    assert streams.submit(fps=15).verdict == "same"
    version = int(streams.record()["version"])
    assert streams.submit(fps=10).verdict == "changed"

    assert [stream.id for stream in streams.store.streams()] == ["x"]
    assert streams.view().spec.fps == 10
    assert int(streams.record()["version"]) == version + 1
    assert streams.store.wait_for_bell(1)


def test_who_changes_what_another_has_changed_meanwhile_reads_it_again(streams) -> None:
    streams.submit(fps=15)
    before = streams.store.wanted("x")[1]
    streams.submit(fps=10)

    assert streams.submit(fps=5, before=before).verdict == "raced"
    assert streams.submit(fps=5, before="").verdict == "raced"
    assert streams.view().spec.fps == 10
    assert streams.submit(fps=10, before=before).verdict == "same", "both want the same"


def test_an_id_of_other_work_is_refused(streams) -> None:
    streams.cluster.put("x")

    placed = streams.submit(before="")

    assert (placed.verdict, placed.why) == ("refused", "the id is in use by other work (t.work)")
    assert streams.store.streams() == []


@pytest.mark.parametrize("ended", [False, True])
def test_the_id_of_a_seat_is_refused_also_when_that_has_ended(streams, ended) -> None:
    streams.submit()
    seat, token = streams.run()
    if ended:
        streams.settle(seat, token, End("stopped"))

    placed = streams.submit(job_id="x.1", before="")

    assert (placed.verdict, placed.why) == ("refused", "the id is in use by other work (x)")
    with pytest.raises(PublishRefused, match="other work"):
        streams.store.wanted("x.1")
    assert streams.record("x.1")["whole"] == "x"


def test_a_seat_gets_no_id_that_others_have(streams) -> None:
    streams.submit(job_id="x.1")
    streams.cluster.put("x.2")
    streams.submit()
    streams.move("start", "a")

    assert streams.owner().id == "x.3"
    assert streams.state("x.1") == "QUEUED"
    assert streams.store.charge("x.3").number == 3


def test_a_stream_that_is_being_cancelled_is_refused_until_it_has_ended(streams) -> None:
    streams.submit()
    seat, token = streams.run()
    streams.store.cancel("x", "enough")

    placed = streams.submit(fps=3)
    assert (placed.verdict, placed.state) == ("refused", "RUNNING")
    assert "send it again" in placed.why
    streams.settle(seat, token, End("stopped"))
    assert streams.end()
    assert streams.submit(fps=3).verdict == "placed"


def test_a_file_that_is_over_is_not_read_again_unless_something_differs(streams) -> None:
    streams.submit("file:/x.mp4")
    seat, token = streams.run()
    streams.settle(seat, token, End("over", "its file is over"))
    assert streams.end(result='{"why": "its file is over"}')

    assert streams.submit("file:/x.mp4").verdict == "done"
    assert streams.submit("file:/x.mp4", fps=1).verdict == "placed"


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_who_has_failed_or_was_cancelled_begins_anew_with_seats_of_their_own(streams, state) -> None:
    streams.submit()
    seat, token = streams.run(fps_in=3)
    streams.tell(seat, token, 1)
    turn = streams.view().turn
    if state == "CANCELLED":
        streams.store.cancel("x", "enough")
    streams.settle(seat, token, End("failed", "no video"))
    assert streams.end(state, "no video")
    assert streams.store.job("x").finished_at is not None

    assert streams.submit().verdict == "placed"

    row = streams.store.job("x")
    assert (row.state, row.error, row.finished_at, row.telemetry) == ("QUEUED", None, None, None)
    assert streams.view().turn > turn, "what was decided before it began anew is void"
    assert streams.view().owner is None
    assert streams.store.client.ttl(f"{streams.prefix}job:x") == -1
    assert streams.store.client.ttl(f"{streams.prefix}results:x") == -1
    streams.run()
    assert streams.owner().id == "x.2"


def test_credentials_are_kept_apart_and_go_with_the_stream(streams) -> None:
    streams.submit(CAMERA, sinks=[HOOK])

    assert streams.secrets() == {SHOWN: Secret("admin", "geheim"), "https://***@there/in": Secret("u", "hook-pass")}
    assert "geheim" not in json.dumps(streams.record())
    streams.store.cancel("x", "enough")
    assert streams.state() == "CANCELLED", "it waited"
    assert streams.secrets() == {}


def test_new_credentials_are_a_change_and_hidden_ones_stay_as_they_are(streams) -> None:
    streams.submit(CAMERA, sinks=[HOOK])
    assert streams.submit(SHOWN, sinks=[HOOK_SHOWN]).verdict == "same"
    assert streams.submit("rtsp://admin:new-one@cam/1", sinks=[HOOK_SHOWN]).verdict == "changed"

    assert streams.secrets()[SHOWN].password == "new-one"
    assert streams.secrets()["https://***@there/in"].password == "hook-pass", "the other one stays"
    streams.submit(SHOWN)
    assert list(streams.secrets()) == [SHOWN], "of a sink that it has no more"


def test_credentials_that_nobody_has_given_are_asked_for(streams) -> None:
    placed = streams.submit(SHOWN)
    assert (placed.verdict, placed.state) == ("refused", "")
    assert f"the credentials of {SHOWN} are hidden" in placed.why

    streams.submit(CAMERA)
    assert streams.submit(SHOWN, sinks=[HOOK_SHOWN]).verdict == "refused", "a new sink"
    assert streams.view().spec.sinks == ()


def test_seats_get_the_credentials_and_the_spec_as_it_is_now(streams) -> None:
    streams.submit(CAMERA)
    streams.move("start", "a")
    streams.submit("rtsp://admin:new-one@cam/1", fps=3)

    charge = streams.store.charge(streams.owner().id)

    assert (charge.stream_id, charge.number, charge.version) == ("x", 1, 2)
    assert charge.spec == spec(SHOWN, fps=3)
    assert charge.secrets == {SHOWN: Secret("admin", "new-one")}
    assert charge.board == "pc"


def test_who_is_no_seat_gets_no_charge(streams) -> None:
    _, job = streams.cluster.put()
    streams.submit()

    for job_id in (job.job_id, "x", "nobody"):
        with pytest.raises(NoSuchJob):
            streams.store.charge(job_id)


def test_a_change_undoes_what_the_seat_had_found_of_the_spec_before(streams) -> None:
    streams.submit()
    seat, token = streams.run()
    streams.settle(seat, token, End("failed", "no such analyzer"))
    before = streams.view()
    assert streams.submit(fps=3).verdict == "changed"

    assert not streams.end("FAILED", "no such analyzer", before)
    assert streams.view().owner is None, "another seat tries it"
    assert streams.state() == "RUNNING"


# The leader ---------------------------------------------------------------------------------------------------------


def test_a_start_gives_the_node_a_seat_with_its_lease_and_its_message(streams) -> None:
    streams.submit(cost=1.5)

    assert streams.move("start", "a", slots=1.5)

    assert (streams.state(), streams.store.job("x").nodes) == ("ASSIGNED", ["a"])
    seat = streams.owner()
    assert (seat.id, seat.node, seat.state, seat.slots, seat.ready) == ("x.1", "a", JobState.ASSIGNED, 1.5, False)
    assert streams.cluster.used("a") == 1.5
    message = streams.store.client.lindex(f"{streams.prefix}processes.a\x06\x163", 0)
    assert json.loads(message) == {"id": "x.1", "pub": streams.record("x.1")["pub"]}
    assert streams.view().turn == int(streams.record()["turn"])


def test_each_step_is_done_once_and_only_with_what_it_was_decided_for(streams) -> None:
    streams.submit()
    view = streams.view()
    assert streams.move("start", "a", view)

    assert not streams.move("start", "b", view), "its turn is over"
    assert streams.cluster.used("b") == 0
    assert streams.store.client.exists(f"{streams.prefix}job:x.2") == 0


def test_the_owner_changes_by_one_step_and_the_old_one_is_asked_to_end(streams) -> None:
    streams.submit()
    old, old_token = streams.run("a")
    streams.tell(old, old_token, 1)
    heir, token = streams.inherit("b")
    assert streams.tell(heir, token, 2).owns is False
    assert streams.store.job("x").nodes == ["a", "b"]

    assert streams.move("hand", "b")

    assert (streams.owner().id, streams.view().heir) == (heir.id, None)
    assert streams.tell(old, old_token, 3) is None, "it goes on without it"
    assert streams.tell(heir, token, 4).owns is True
    assert streams.seen() == [(1, old.id), (4, heir.id)]
    assert streams.cluster.beat("a", seq=2).cancel == (f"c-{old.id}",)
    assert streams.store.job("x").nodes == ["b"]
    assert streams.settle(old, old_token, End("stopped"))
    assert streams.cluster.used("a") == 0
    assert streams.cluster.beat("a", seq=3).cancel == ()


def test_there_is_no_hand_without_an_heir(streams) -> None:
    streams.submit()
    streams.run("a")

    assert not streams.move("hand", "b")
    assert streams.owner().node == "a"


def test_an_heir_that_is_dropped_or_followed_by_another_is_void(streams) -> None:
    streams.node("c")
    streams.submit()
    owner, owner_token = streams.run("a")
    first, first_token = streams.inherit("b", ready=False)
    assert streams.move("prepare", "c")
    assert streams.tell(first, first_token) is None
    second = streams.heir()

    assert streams.move("drop", "c")

    assert streams.record(second.id)["state"] == "CANCELLED", "nobody had claimed it"
    assert streams.cluster.used("c") == 0
    assert streams.view().heir is None
    assert streams.tell(owner, owner_token).owns


def test_a_stream_that_stops_has_no_owner_and_waits(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")

    assert streams.move("stop", "a")

    assert (streams.state(), streams.view().owner, streams.store.job("x").nodes) == ("QUEUED", None, [])
    assert streams.tell(seat, token) is None
    streams.run("b")
    assert streams.state() == "RUNNING"


def test_a_start_takes_the_stream_from_whoever_had_it(streams) -> None:
    streams.node("c")
    streams.submit()
    owner, token = streams.run("a")
    heir, heir_token = streams.inherit("b")

    assert streams.move("start", "c")

    assert streams.state() == "ASSIGNED"
    assert streams.tell(owner, token) is None
    assert streams.tell(heir, heir_token) is None
    assert [streams.cluster.beat(node, seq=2).cancel for node in "ab"] == [(f"c-{owner.id}",), (f"c-{heir.id}",)]
    assert json.loads(streams.record()["parts"]) == [streams.owner().id]


@pytest.mark.parametrize("claimed", [False, True])
def test_a_dead_node_loses_its_seat_and_the_leader_hears(streams, claimed) -> None:
    streams.submit()
    streams.move("start", "a")
    seat = streams.owner()
    token = streams.claim(seat) if claimed else ""
    while streams.store.wait_for_bell(0.01):
        pass

    streams.dead("a")

    seat = streams.owner()
    assert (seat.state, seat.error, seat.live) == (JobState.FAILED, "it was not heard of", False)
    assert streams.store.wait_for_bell(1)
    assert not streams.move("start", "a"), "it takes nothing new"
    assert streams.move("start", "b")
    if claimed:
        assert streams.tell(seat, token) is None
    assert streams.state() == "ASSIGNED"


def test_a_node_that_was_forgotten_or_drains_loses_what_it_had_not_begun(streams) -> None:
    streams.submit()
    streams.move("start", "a")
    streams.store.drain("a", "new disk", grace_s=30)
    assert (streams.owner().state, streams.owner().error) == (JobState.FAILED, "its node drains")

    streams.run("b")
    streams.dead("b")
    streams.store.forget("b", dead_s=5)

    assert not streams.owner().live
    assert not streams.move("start", "a"), "it drains"
    assert not streams.move("start", "b"), "nobody knows it"
    assert streams.store.client.exists(f"{streams.prefix}leases:b", f"{streams.prefix}node:b") == 0


def test_a_seat_whose_grace_is_over_may_say_how_it_ended(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    streams.store.drain("a", "new disk", grace_s=0)
    assert streams.store.evict("a", streams.cluster.epochs["a"], "its node drains") == 1

    assert streams.settle(seat, token, End("stopped"))

    assert (streams.owner().state, streams.owner().end) == (JobState.SUCCEEDED, End("stopped"))


def test_a_lane_that_dies_loses_its_seats_and_nobody_picks_them_again(streams) -> None:
    streams.submit()
    seat, _ = streams.run("a")

    streams.store.lost(seat.id, "a", None, "lane died", epoch=streams.cluster.epochs["a"])

    assert (streams.owner().state, streams.owner().error) == (JobState.FAILED, "lane died")
    assert streams.cluster.used("a") == 0
    assert streams.cluster.length("processes.b") == 0


def test_a_leader_whose_term_is_over_does_nothing(streams) -> None:
    streams.submit()
    view, old = streams.view(), streams.term
    streams.store.client.hset(f"{streams.prefix}leader", "term", old + 1)

    assert not streams.move("start", "a", view)
    assert not streams.end("FAILED", "late", view)
    assert not streams.store.weigh(streams.epoch, old, [], {"x": "late"})
    assert streams.state() == "QUEUED"
    assert streams.record().get("reason") is None


def test_a_server_that_was_started_anew_is_asked_again_until_nodes_have_told_what_runs(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    view = streams.view()
    streams.store.client.hset(f"{streams.prefix}broker", mapping={"run_id": "another", "save": "1"})

    with pytest.raises(BrokerUnsure):
        streams.tell(seat, token, 1)
    assert not streams.move("start", "b", view)
    assert streams.seen() == []


def test_a_claim_that_such_a_server_lost_is_made_again(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    streams.set(seat.id, state="ASSIGNED", token="0-before")
    streams.store.client.hdel(f"{streams.prefix}job:{seat.id}", "claimer", "epoch", "started_at")
    kept = streams.store.client.hgetall(f"{streams.prefix}broker")
    streams.store.client.hset(f"{streams.prefix}broker", mapping={"run_id": "another", "save": "1"})
    assert streams.reassert([(seat, token)]) == 1
    streams.store.client.delete(f"{streams.prefix}broker")
    if kept:
        streams.store.client.hset(f"{streams.prefix}broker", mapping=kept)

    assert streams.tell(seat, token, 1).owns
    assert streams.cluster.used("a") == 1


def test_while_a_node_runs_a_seat_that_such_a_server_has_forgotten_no_other_begins(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    streams.cluster.beat("a", seq=2, running=((seat.id, f"c-{seat.id}"),))
    streams.store.client.delete(f"{streams.prefix}job:{seat.id}")
    streams.set("x", owner="", seats="0", parts="[]", state="QUEUED")
    streams.store.client.hdel(f"{streams.prefix}leases:a", seat.id)

    assert not streams.move("start", "b")
    assert streams.tell(seat, token, 1) is None, "it hears that it shall end"
    streams.cluster.beat("a", seq=3, running=())

    assert streams.move("start", "b")
    assert streams.owner().node == "b"


# A seat -------------------------------------------------------------------------------------------------------------


def test_what_the_owner_tells_is_what_people_see(streams) -> None:
    streams.submit()
    streams.move("start", "a")
    seat = streams.owner()
    token = streams.claim(seat)
    assert streams.state() == "ASSIGNED"

    heard = streams.tell(seat, token, 1, 2, load=Load(0.5, 1e6), state="streaming", fps_in=25)

    assert (heard.owns, heard.version) == (True, 1)
    row = streams.store.job("x")
    assert (row.state, row.telemetry["state"], row.telemetry["fps_in"]) == ("RUNNING", "streaming", 25)
    assert row.started_at is not None
    assert streams.view().load == Load(0.5, 1e6)
    assert streams.owner().ready
    assert streams.seen() == [(1, "x.1"), (2, "x.1")]


def test_frames_that_come_and_stay_away_again_are_told_and_the_leader_hears_of_the_first(streams) -> None:
    streams.submit()
    streams.run("a")
    seat, token = streams.inherit("b", ready=False)
    while streams.store.wait_for_bell(0.01):
        pass
    assert not streams.heir().ready

    streams.tell(seat, token, ready=True)
    assert streams.store.wait_for_bell(1)
    assert streams.heir().ready
    streams.tell(seat, token, ready=False)
    assert not streams.heir().ready


def test_a_seat_hears_that_the_spec_has_changed(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    streams.submit(fps=3)

    assert streams.tell(seat, token).version == 2


def test_a_seat_hears_how_its_node_is(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    streams.store.client.hset(f"{streams.prefix}node:a", "metrics", '{"cpu_busy": 0.5}')

    assert streams.tell(seat, token).metrics == {"cpu_busy": 0.5}


def test_who_has_another_token_or_has_not_claimed_tells_nothing(streams) -> None:
    streams.submit()
    streams.move("start", "a")
    seat = streams.owner()

    assert streams.tell(seat, streams.record(seat.id)["token"], 1) is None, "nobody has claimed it"
    token = streams.claim(seat)
    assert streams.tell(seat, "0-other", 1) is None
    assert streams.tell(seat, token, 2).owns
    assert streams.seen() == [(2, seat.id)]


def test_an_heir_says_how_it_is_but_what_people_see_is_the_owner(streams) -> None:
    streams.submit()
    owner, owner_token = streams.run("a", fps_in=25)
    heir, token = streams.inherit("b")
    streams.tell(heir, token, 1, load=Load(9.0, 9.0), fps_in=1, slowed="5 of 10 fps")

    assert streams.store.job("x").telemetry["fps_in"] == 25
    assert streams.view().load is None
    assert streams.heir().hot
    assert streams.seen() == []
    assert streams.tell(owner, owner_token).owns


def test_results_are_capped_and_fewer_are_kept_of_those_with_pictures(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    for first in range(0, 3000, 500):
        streams.tell(seat, token, *range(first, first + 500))

    assert 1000 <= streams.store.client.xlen(f"{streams.prefix}results:x") < 1200
    place, _ = streams.store.results("x", streams.store.last_result("x"))
    picture = json.dumps({"n": 0, "by": "", "jpeg": "x" * 1000})
    for first in range(3000, 3500, 100):
        streams.store.tell_seat(seat.id, token, "{}", "", [picture] * 100, first=first, ready=True)
    assert 50 <= streams.store.client.xlen(f"{streams.prefix}results:x") < 150
    assert len(streams.store.results("x", place)[1]) >= 50


def test_results_that_are_told_again_because_the_answer_was_lost_are_kept_once(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    streams.tell(seat, token, 1, 2)

    streams.tell(seat, token, 1, 2, first=0)
    streams.tell(seat, token, 1, 2, 3, 4, first=0)
    streams.tell(seat, token, 8, first=7)

    assert [number for number, _ in streams.seen()] == [1, 2, 3, 4, 8]


def test_results_are_read_on_from_where_one_was(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")
    assert streams.store.last_result("x") == ""
    streams.tell(seat, token, 1, 2)
    place, seen = streams.store.results("x", limit=1)
    assert [one["n"] for one in seen] == [1]
    place, seen = streams.store.results("x", place)
    assert [one["n"] for one in seen] == [2]
    assert place == streams.store.last_result("x")

    assert streams.store.results("x", place) == (place, [])
    assert streams.store.results("nobody") == ("", [])


# The end ------------------------------------------------------------------------------------------------------------


def test_a_stream_ends_when_all_its_seats_have_and_not_before(streams) -> None:
    streams.submit(CAMERA)
    owner, token = streams.run("a")
    heir, heir_token = streams.inherit("b")
    streams.tell(owner, token, 1)
    streams.settle(owner, token, End("failed", "no video in it"))

    assert not streams.end("FAILED", "no video in it"), "the heir still runs"
    assert streams.secrets() != {}
    assert streams.cluster.beat("b", seq=2).cancel == (f"c-{heir.id}",)
    streams.settle(heir, heir_token, End("stopped"))
    assert streams.end("FAILED", "no video in it")

    row = streams.store.job("x")
    assert (row.state, row.error) == ("FAILED", "no video in it")
    assert streams.store.streams() == []
    assert streams.secrets() == {}
    assert streams.store.client.exists(f"{streams.prefix}msg:x") == 0
    assert streams.store.client.ttl(f"{streams.prefix}results:x") > 0
    assert [streams.cluster.used(node) for node in "ab"] == [0, 0]


def test_a_seat_that_nobody_has_claimed_ends_with_its_stream(streams) -> None:
    streams.submit()
    streams.run("a")
    streams.move("prepare", "b")
    seat, heir = streams.owner(), streams.heir()
    streams.settle(seat, streams.record(seat.id)["token"], End("over", "its file is over"))

    assert streams.end(result='{"why": "its file is over"}')

    assert streams.record(heir.id)["state"] == "CANCELLED"
    assert streams.store.job("x").result == {"why": "its file is over"}


@pytest.mark.parametrize("who", ["x", "x.1"])
def test_a_cancelled_stream_ends_with_its_seats_and_a_seat_stands_for_its_stream(streams, who) -> None:
    streams.submit(CAMERA)
    seat, token = streams.run("a")

    assert streams.store.cancel(who, "enough").state == "RUNNING"

    assert streams.view().cancel_asked
    assert not streams.move("start", "b"), "it shall end"
    assert streams.cluster.beat("a", seq=2).cancel == (f"c-{seat.id}",)
    assert not streams.end("CANCELLED", "cancelled")
    streams.settle(seat, token, End("stopped"))
    assert streams.end("SUCCEEDED", "too late: it was cancelled")
    row = streams.store.job("x")
    assert (row.state, row.reason) == ("CANCELLED", "enough")
    assert streams.secrets() == {}


def test_a_stream_that_is_cancelled_while_nobody_has_claimed_its_seat_is_over_in_the_next_look(streams) -> None:
    streams.submit()
    streams.move("start", "a")
    streams.store.cancel("x", "enough")

    assert streams.record("x.1")["state"] == "CANCELLED"
    assert streams.end("CANCELLED", "cancelled")
    assert streams.cluster.used("a") == 0


# What else holds ----------------------------------------------------------------------------------------------------


def test_leases_follow_what_was_measured_and_people_hear_why_a_stream_waits(streams) -> None:
    streams.submit()
    streams.submit(job_id="waits")
    seat, _ = streams.run("a")

    heavy = Weight(seat.id, "a", Needs((), 2.5))
    gone = Weight("x.7", "a", Needs((), 3.0))
    assert streams.store.weigh(streams.epoch, streams.term, [heavy, gone], {"waits": "a is full", "nobody": "no"})

    assert streams.cluster.used("a") == 2.5
    assert streams.owner().slots == 2.5
    assert streams.store.job("waits").reason == "a is full"
    assert streams.store.job("nobody") is None


def test_nodes_are_seen_with_what_others_hold_on_them(streams) -> None:
    streams.node("hot")
    streams.cluster.node("old")
    streams.submit()
    seat, token = streams.run("hot", slowed="5 of 10 fps")
    streams.submit(job_id="other")
    streams.run("a", "other")

    nodes = {node.name: node for node in streams.store.stream_nodes([streams.view()])}

    assert (nodes["a"].gangs.slots, nodes["hot"].gangs.slots) == (1.0, 0.0), "x is counted by itself"
    assert [name for name, node in nodes.items() if node.hot] == ["hot"]
    assert nodes["old"].why_not == "does not know the task stream.run"
    streams.store.drain("a", "new disk", grace_s=30)
    streams.dead("hot")
    nodes = {node.name: node for node in streams.store.stream_nodes(streams.store.streams())}
    assert (nodes["a"].leaving, nodes["b"].leaving) == ("drains", "")
    assert "hot" not in nodes
    assert streams.tell(seat, token) is None


def test_a_stream_that_stands_nowhere_is_found_by_the_audit(streams) -> None:
    streams.submit()
    streams.run("a")
    streams.store.client.delete(f"{streams.prefix}streams")

    assert streams.store.audit(streams.epoch, streams.term, "", limit=10)[1] == ["x"]
    assert streams.view().owner is not None


def test_a_clock_that_was_set_changes_nothing_for_a_stream(streams) -> None:
    streams.submit()
    seat, token = streams.run("a")

    streams.store.shift(streams.epoch, streams.term, 3600.0)

    assert streams.tell(seat, token, 1).owns
    assert streams.state() == "RUNNING"


def test_a_stream_of_another_version_of_jetq_does_not_hold_up_the_others_and_ends(streams) -> None:
    streams.submit(job_id="new")
    streams.submit(job_id="old")
    seat, token = streams.run("a", "new")
    streams.set("new", spec=json.dumps(spec().as_json() | {"colour": "red"}))

    assert [stream.id for stream in streams.store.streams()] == ["old"]
    assert "colour" in streams.store.job("new").reason
    streams.settle(seat, token, End("stopped"))
    assert streams.view("new").cancel_asked
    assert streams.end("CANCELLED", "cancelled", streams.view("new"))
    assert streams.state("new") == "CANCELLED"


def test_a_stream_whose_spec_cannot_be_read_at_all_does_not_hold_up_the_others(streams) -> None:
    streams.submit(job_id="deep")
    streams.submit(job_id="old")
    plain = json.dumps(spec().as_json() | {"options": {"a": "HERE"}})
    streams.set("deep", spec=plain.replace('"HERE"', "[" * 50_000 + "]" * 50_000))

    assert [stream.id for stream in streams.store.streams()] == ["old"]
    assert "cannot read what it asks for" in streams.record("deep")["reason"]


def test_what_a_seat_of_another_version_said_is_not_known(streams) -> None:
    streams.submit()
    seat, token = streams.run("a", load=Load(0.5, 1e6))
    streams.set("x", load="[1, 2, 3, 4, 5, 6]")
    assert streams.view().load is None

    streams.store.settle(seat.id, token, f"c-{seat.id}", "SUCCEEDED", result='"well"')

    assert (streams.owner().end, streams.owner().live) == (None, False)
    assert "cannot be read" in streams.owner().error


def test_the_story_of_a_stream_names_its_nodes_and_why(streams) -> None:
    streams.submit()
    streams.run("a")
    streams.inherit("b")
    streams.move("hand", "b")

    told = [(event["what"], event["node"], event["why"]) for event in streams.store.job("x").history]
    assert told == [("start", "a", "to start"), ("prepare", "b", "to prepare"), ("hand", "b", "to hand")]


def test_the_longest_id_has_seats_too(streams) -> None:
    name = "x" * 128
    streams.store.submit_stream(name, spec(), {}, TEMPLATE)

    streams.run("a", name)

    assert streams.owner(name).id == f"{name}.1"
