"""What the leader does with streams, look by look, on a real ledger with seats that are moved by hand."""

from __future__ import annotations

import time

import pytest

from jetq.clock import ManualClock
from jetq.model.charge import End
from jetq.policy.streamcost import Load
from jetq.policy.streams import HEIR_S
from jetq.service.streams import SETTLES_S
from jetq.service.streams import Streams as Look
from tests.store.conftest import Cluster
from tests.store.streams_by_hand import Streams


class Leads:
    """Says that the leader leads."""

    def __init__(self, streams: Streams) -> None:
        self.epoch, self.term = streams.epoch, streams.term


class Led(Streams):
    """Streams, and the leader who looks at them."""

    def __init__(self, url: str) -> None:
        super().__init__(Cluster(url))
        self.clock = ManualClock(100.0)  # as of a machine that has just booted: far from the ledger's
        self.new_leader()

    def new_leader(self) -> None:
        self.leads = Leads(self)
        self.leader = Look(self.store, self.leads, clock=self.clock)

    def look(self, moves: dict[str, str] | None = None, *, after_s: float = 0.5) -> None:
        self.clock.advance(after_s)
        self.leader.look(moves or {})

    def begin(self, *, ready: bool = True):
        """The owner's node begins with it."""
        seat = self.owner()
        token = self.claim(seat)
        self.tell(seat, token, ready=ready)
        return self.owner(), token


@pytest.fixture
def led(redis_url: str) -> Led:
    made = Led(redis_url)
    made.node("a")
    return made


def test_a_stream_is_started_and_stays(led) -> None:
    led.submit()
    led.look()
    seat, _ = led.begin()
    led.node("b", 8)

    for _ in range(5):
        led.look(after_s=60.0)

    assert (led.owner().id, led.view().heir, led.view().turn) == (seat.id, None, 2)


def test_a_stream_of_a_dead_node_is_elsewhere_in_the_next_look(led) -> None:
    led.submit()
    led.look()
    seat, token = led.begin()
    led.node("b")
    led.dead("a")

    led.look()

    assert led.owner().node == "b"
    assert led.tell(seat, token) is None
    assert led.store.job("x").history[-1]["why"] == "a: it was not heard of"


def test_streams_that_ran_wait_a_moment_for_nodes_that_start_together_with_the_leader(led) -> None:
    for job in ("x", "y"):
        led.submit("test:ball", job, cost=1.0)
        led.look()
        led.tell(led.owner(job), led.claim(led.owner(job)))
    led.dead("a")
    led.new_leader()  # of a cluster that is started anew
    led.node("b")

    led.look()
    led.submit("test:ball", "new", cost=1.0)
    led.look()

    assert not led.owner("x").live
    assert not led.owner("y").live
    assert led.owner("new").node == "b", "it never ran, and waits for nobody"
    led.node("c")
    led.look(after_s=SETTLES_S)
    assert {led.owner("x").node, led.owner("y").node} == {"b", "c"}


def test_a_leader_that_has_been_there_for_a_while_waits_for_no_nodes(led) -> None:
    led.submit()
    led.look()
    led.begin()
    led.node("b")
    led.dead("a")
    led.new_leader()
    led.clock.advance(SETTLES_S)

    led.look()

    assert led.owner().node == "b"


def test_who_drains_keeps_its_stream_until_the_heir_has_frames(led) -> None:
    led.submit()
    led.look()
    owner, owner_token = led.begin()
    led.node("b")
    led.store.drain("a", "new disk", grace_s=30)

    led.look()
    heir = led.heir()
    token = led.claim(heir)
    led.tell(heir, token, ready=False)
    led.look()
    assert led.tell(owner, owner_token).owns
    led.tell(heir, token)
    led.look()

    assert led.owner().id == heir.id
    assert led.tell(owner, owner_token) is None


@pytest.mark.parametrize("anew", [False, True])
def test_an_heir_without_frames_is_dropped_after_20_s_of_the_leaders_own_clock(led, anew) -> None:
    led.submit()
    led.look()
    led.begin()
    led.node("b")
    led.store.drain("a", "new disk", grace_s=30)
    led.look()
    heir = led.heir()
    led.look()
    led.look(after_s=HEIR_S - 1)
    assert led.heir().id == heir.id
    if anew:  # it knows the heir since now
        led.new_leader()
        led.look(after_s=2.0)
        assert led.heir().id == heir.id
        led.clock.advance(HEIR_S)

    led.look(after_s=2.0)

    assert led.view().heir is None
    assert "showed no frame" in led.store.job("x").history[-1]["why"]
    led.look()
    assert led.view().heir is None, "it rests there"
    assert "showed no frame" in led.store.job("x").reason


@pytest.mark.parametrize(
    ("end", "state"),
    [(End("over", "its file is over"), "SUCCEEDED"), (End("failed", "no video", "Traceback"), "FAILED")],
)
def test_a_seat_that_has_come_to_its_end_ends_its_stream(led, end, state) -> None:
    led.submit()
    led.look()
    seat, token = led.begin()
    led.settle(seat, token, end)

    led.look()

    row = led.store.job("x")
    assert row.state == state
    assert row.error == ("no video\nTraceback" if state == "FAILED" else None)


def test_a_file_that_was_over_before_its_seat_could_tell_has_ended_well(led) -> None:
    led.submit("file:/short.mp4")
    led.look()
    seat = led.owner()
    led.settle(seat, led.claim(seat), End("over", "its file is over"))
    assert led.state() == "ASSIGNED"

    led.look()

    assert led.state() == "SUCCEEDED"


@pytest.mark.parametrize("how", ["refuses", "raises", "garbles"])
def test_a_node_that_cannot_run_a_stream_is_left_alone_for_a_while(led, how) -> None:
    led.submit()
    led.look()
    seat = led.owner()
    token = led.claim(seat)
    if how == "refuses":
        led.settle(seat, token, End("refused", "not on its list"))
    elif how == "raises":
        led.store.settle(seat.id, token, f"c-{seat.id}", "FAILED", error="KeyError: 'x'")
    else:
        led.store.settle(seat.id, token, f"c-{seat.id}", "SUCCEEDED", result='"well"')

    led.look()
    assert led.view().owner is None, "there is no other node"
    led.look(after_s=8.0)
    assert led.view().owner is None
    assert led.store.job("x").reason.startswith("no node can take it now: a ")
    led.node("b")
    led.look()
    assert led.owner().node == "b"


def test_such_a_node_is_tried_again(led) -> None:
    led.submit()
    led.look()
    seat = led.owner()
    led.settle(seat, led.claim(seat), End("refused", "not on its list"))
    led.look()

    led.look(after_s=11.0)

    assert led.owner().live


def test_a_lane_that_died_costs_its_streams_no_rest(led) -> None:
    led.submit()
    led.look()
    seat, _ = led.begin()
    led.store.lost(seat.id, "a", None, "its lane was killed")

    led.look()

    assert (led.owner().live, led.owner().id) == (True, "x.2")


def test_a_node_whose_lane_died_gets_its_streams_back_where_no_other_has_room(led) -> None:
    led.node("b", 1)
    led.submit(job_id="full", cost=1, node="b")
    led.submit()
    led.look()
    led.store.lost(led.owner().id, "a", None, "its lane was killed")
    led.look()
    assert led.owner().node == "a", "b is full"
    led.node("c", 1)
    led.store.lost(led.owner().id, "a", None, "its lane was killed")

    led.look()

    assert led.owner().node == "c"


def test_a_cancelled_stream_ends_once_its_seat_has(led) -> None:
    led.submit()
    led.look()
    seat, token = led.begin()
    led.store.cancel("x", "enough")
    led.look()
    assert led.state() == "RUNNING"
    led.settle(seat, token, End("stopped"))

    led.look()

    assert (led.state(), led.store.job("x").reason) == ("CANCELLED", "enough")


def test_what_still_runs_of_a_cancelled_stream_takes_its_room(led) -> None:
    led.submit(cost=3)
    led.look()
    seat, token = led.begin()
    led.submit(job_id="next", cost=3)
    led.store.cancel("x", "enough")
    led.look()
    assert led.state("next") == "QUEUED"
    assert "1.00 of 4 slots free" in led.store.job("next").reason
    led.settle(seat, token, End("stopped"))

    led.look()

    assert led.state("next") == "ASSIGNED"


def test_a_lease_follows_what_was_measured(led) -> None:
    led.submit()
    led.look()
    seat, token = led.begin()
    led.tell(seat, token, load=Load(2.5, 0.0, ""))
    led.look()
    assert led.owner().slots == pytest.approx(2.5)
    led.tell(seat, token, load=Load(2.6, 0.0, ""))
    led.look()

    assert led.owner().slots == pytest.approx(2.5), "it differs by too little"


def test_a_stream_that_makes_room_leaves_by_an_heir(led) -> None:
    led.submit()
    led.look()
    led.begin()
    led.node("b")

    led.look({led.store.streams()[0].id: "makes room for the gang g"})

    assert led.heir().node == "b"


def test_who_does_not_lead_does_nothing(led) -> None:
    led.submit()
    led.leads.term = 0
    led.look()
    assert led.state() == "QUEUED"

    led.leads.term = led.term + 1  # it only believes so
    led.look()
    assert led.state() == "QUEUED"


def test_one_look_at_many_streams_is_short(led) -> None:
    for name in "bcdefghij":
        led.node(name, 30)
    for number in range(200):
        led.submit(job_id=f"s{number}", size="640x360", cost=0.5)
    led.look()
    assert all(stream.owner is not None for stream in led.store.streams())
    began_s = time.process_time()

    led.look()

    assert time.process_time() - began_s < 0.2, "some 15 ms of a server's core"
