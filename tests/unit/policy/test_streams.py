"""Where streams go, when they move, and when they stay."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from jetq.policy.backoff import refused
from jetq.policy.overload import OVERLOAD_S, STAY_S
from jetq.policy.seats import Stream, StreamNode, Taken
from jetq.policy.streamcost import Load, Machine
from jetq.policy.streamoffers import never, offers
from jetq.policy.streams import HEIR_S, Memory, look
from tests.unit.policy.fleet import BEGIN_S, Fleet


def node(name: str, slots: int = 4, **fields: object) -> StreamNode:
    return StreamNode(name, Machine(slots), labels=frozenset({f"node={name}"}), **fields)  # type: ignore[arg-type]


def stream(name: str, cores: float = 1.0, **fields: object) -> Stream:
    return Stream(name, Load(cores, 0.0, ""), **fields)  # type: ignore[arg-type]


def fleet(nodes: str = "ab", streams: int = 4, cores: float = 1.0, slots: int = 4) -> Fleet:
    return Fleet(
        {name: node(name, slots) for name in nodes}, {f"s{n}": stream(f"s{n}", cores) for n in range(1, streams + 1)}
    )


def test_a_stream_goes_where_it_costs_least_and_stays():
    there = fleet(streams=4)
    there.turns(100)

    assert sorted(there.owner(s) for s in there.streams) == ["a", "a", "b", "b"]
    assert len(there.steps) == 4


def test_larger_nodes_take_more_and_slowed_ones_less():
    there = Fleet({"a": node("a", 2), "b": node("b", 6)}, {f"s{n}": stream(f"s{n}", 0.5) for n in range(8)})
    there.turn()
    assert [there.owner(s) for s in there.streams].count("b") == 6

    there = fleet(streams=5, cores=0.5)
    there.change("a", trim=0.25)
    there.turn()
    assert [there.owner(s) for s in there.streams].count("a") == 1


def test_of_streams_that_come_at_once_the_largest_are_placed_first():
    there = Fleet(
        {"a": node("a"), "b": node("b")}, {f"s{n}": stream(f"s{n}", 3.0 if n == 4 else 1.0) for n in (1, 2, 3, 4)}
    )
    there.turn()

    assert set(there.fills().values()) == {0.75}


def test_an_overload_is_not_moved_on_to_a_node_that_would_be_nearly_full():
    there = fleet(streams=0)
    there.streams = {f"s{n}": stream(f"s{n}", 1.0, labels=(f"node={'ab'[n % 2]}",)) for n in range(6)}
    there.turns(3)
    there.streams = {s.id: replace(s, labels=()) for s in there.streams.values()}
    there.change("a", cpu_busy=0.99)
    there.turns(100)

    assert there.count("prepare") == 0


def test_a_hot_node_comes_last_not_never():
    there = fleet(streams=5)
    there.change("a", hot=True)
    there.turn()

    assert [there.owner(s) for s in there.streams].count("a") == 1


def test_what_no_node_can_take_waits_with_the_reason_and_starts_once_one_can():
    there = fleet(streams=5, cores=2.0)
    there.turns(3)

    (waits,) = there.waiting
    assert there.owner(waits) is None
    assert "a has 0.00 of 4 slots free; the stream costs 2.00" in there.waiting[waits]
    there.nodes["c"] = node("c")
    there.turn()
    assert there.owner(waits) == "c"


def test_without_nodes_all_wait():
    there = fleet(nodes="")
    there.turn()

    assert set(there.waiting.values()) == {"no node is there"}


def test_a_new_node_takes_only_new_streams():
    there = fleet(streams=6)
    there.turns(3)
    there.nodes["c"] = node("c")
    there.turns(100)
    assert [there.owner(s) for s in there.streams].count("c") == 0

    there.streams["new"] = stream("new")
    there.turn()
    assert there.owner("new") == "c"
    assert there.count("prepare") == 0


def test_the_streams_of_a_dead_node_start_elsewhere_in_one_look_all_of_them():
    there = fleet(nodes="abc", streams=8)
    there.turns(5)
    lost = [s for s in there.streams if there.owner(s) == "a"]
    del there.nodes["a"]
    seen = there.turn()

    assert {step.stream for step in seen.steps if step.verb == "start"} == set(lost)
    assert all("a is dead" in step.why for step in seen.steps)
    assert all(there.owner(s) in ("b", "c") for s in there.streams)


def test_a_drain_starts_the_new_owner_before_it_stops_the_old_one():
    there = fleet(streams=2)
    there.turns(5)
    there.change("a", leaving="drains")
    there.turn()
    (moves,) = (s for s in there.streams.values() if s.heir)
    assert (moves.owner.node, moves.heir.node) == ("a", "b")

    there.turns(round(BEGIN_S) + 1)
    assert {there.owner(s) for s in there.streams} == {"b"}
    assert [verb for _, verb, _, _ in there.steps] == ["start", "start", "prepare", "hand"]


def test_a_stream_without_frames_is_handed_over_at_once():
    there = fleet(streams=2)
    there.mute = lambda stream, node: True
    there.turns(5)
    there.change("a", leaving="drains")
    there.turns(2)

    assert {there.owner(s) for s in there.streams} == {"b"}


def test_a_drain_without_room_elsewhere_leaves_streams_where_they_are():
    there = fleet(streams=2, cores=4.0)
    there.turns(3)
    there.change("a", leaving="drains")
    there.turns(3)

    assert sorted(there.owner(s) for s in there.streams) == ["a", "b"]
    assert "no node can take it now" in next(iter(there.waiting.values()))


def test_where_all_nodes_leave_streams_are_stopped_and_start_again_on_the_first_that_stays():
    there = fleet(streams=2)
    there.turn()
    for name in "ab":
        there.change(name, leaving="is stopping")
    there.turn()

    assert (there.count("stop"), there.count("prepare")) == (2, 0)
    assert all("and there is no other node" in why for why in there.waiting.values())
    there.change("b", leaving="")
    there.turn()
    assert {there.owner(s) for s in there.streams} == {"b"}


def test_an_heir_that_shows_no_frame_is_dropped_and_another_node_tried():
    there = fleet(nodes="abc", streams=1)
    there.turns(5)
    first = there.owner("s1")
    there.mute = lambda stream, node: node == "b"
    there.change(first, leaving="drains")
    there.turns(round(HEIR_S) + 5)

    assert first == "a"
    assert [verb + at for _, verb, _, at in there.steps] == ["starta", "prepareb", "dropb", "preparec", "handc"]


@pytest.mark.parametrize("how", ["dies", "drains"])
def test_an_heir_whose_node_goes_is_dropped_and_the_owner_keeps_the_stream(how):
    there = fleet(nodes="ab", streams=1)
    there.turns(5)
    there.change("a", leaving="drains")
    there.turn()
    if how == "dies":
        del there.nodes["b"]
    else:
        there.change("b", leaving="drains")
    there.turn(0.1)

    assert (there.owner("s1"), there.streams["s1"].heir) == ("a", None)


def test_an_heir_owns_the_stream_at_once_if_the_owner_dies():
    there = fleet(streams=1)
    there.turns(5)
    there.change("a", leaving="drains")
    there.turn(0.1)
    del there.nodes["a"]
    there.turn()

    assert there.owner("s1") == "b"


def test_if_owner_and_heir_die_at_once_a_third_starts_it_in_the_same_look():
    there = fleet(nodes="abc", streams=1)
    there.turns(5)
    there.change("a", leaving="drains")
    there.turn(0.1)
    del there.nodes["a"], there.nodes["b"]
    there.turn()

    assert (there.owner("s1"), there.streams["s1"].heir) == ("c", None)


def test_a_local_camera_stays_on_its_node_and_is_never_opened_twice():
    there = fleet(streams=0)
    there.streams["usb"] = stream("usb", labels=("node=a",), local=True)
    there.turns(5)
    assert there.owner("usb") == "a"
    there.change("a", leaving="drains")
    there.turns(5)
    assert there.owner("usb") is None
    assert "a drains" in there.waiting["usb"]
    there.change("a", leaving="")
    there.turns(2)
    del there.nodes["a"]
    there.turn()

    assert [verb for _, verb, _, _ in there.steps] == ["start", "stop", "start"]
    assert there.waiting["usb"] == "no node can take it now: b does not carry node=a"


def test_a_stream_that_makes_room_for_a_gang_moves_and_does_not_come_back():
    there = fleet(streams=2, cores=2.0)
    there.turns(3)
    moves = next(s for s in there.streams if there.owner(s) == "a")
    there.streams[moves] = replace(there.streams[moves], asked="makes room for the gang g7")
    there.change("a", planned=Taken(slots=4.0))
    seen = there.turn()
    assert [(step.verb, step.why) for step in seen.steps] == [("prepare", "a makes room for the gang g7")]
    there.turns(3)
    there.streams[moves] = replace(there.streams[moves], asked="")
    there.change("a", planned=Taken(), gangs=Taken(slots=4.0))
    there.turns(60)

    assert {there.owner(s) for s in there.streams} == {"b"}
    assert there.count("prepare") == 1


def test_a_local_camera_makes_room_for_nobody():
    there = fleet(streams=0)
    there.streams["usb"] = stream("usb", labels=("node=a",), local=True, asked="makes room for the gang g7")
    there.turns(60)

    assert [verb for _, verb, _, _ in there.steps] == ["start"]


def test_a_stream_leaves_a_node_that_does_not_carry_its_labels_any_more():
    there = fleet(streams=0)
    there.streams["s"] = stream("s", labels=("node=a",))
    there.turns(3)
    there.streams["s"] = replace(there.streams["s"], labels=("node=b",))
    there.turns(4)

    assert there.owner("s") == "b"


def test_a_node_that_refused_is_avoided():
    there = fleet(streams=0)
    there.streams["s"] = stream("s")
    there.memory = Memory(rests={("s", "a"): refused(None, there.now_s, "refused it: may not open it")})
    there.turn()

    assert there.owner("s") == "b"


def test_an_overload_moves_one_stream_after_30_s_and_one_every_30_s():
    there = fleet(nodes="a", streams=4, cores=0.8)
    there.turns(3)
    there.nodes["b"] = node("b", 8)
    began_s = there.now_s
    for name in there.streams:
        there.load(name, 1.6)  # 160 % of a
    there.turns(200)

    moves = [at_s - began_s for at_s, verb, _, _ in there.steps if verb == "prepare"]
    assert moves[0] == OVERLOAD_S
    assert all(later - earlier >= OVERLOAD_S for earlier, later in pairwise(moves))
    assert len(moves) == 2
    assert there.fills()["a"] <= 1.0


def test_busy_processors_are_an_overload_too_but_not_for_a_moment():
    there = fleet(streams=2, cores=0.5)
    there.turns(3)
    there.change("a", cpu_busy=0.99)
    there.turns(29)
    there.change("a", cpu_busy=0.5)
    there.turns(2)
    there.change("a", cpu_busy=0.99)
    there.turns(29)
    assert there.count("prepare") == 0

    there.turns(3)
    assert there.count("prepare") == 1


def test_a_stream_that_was_moved_for_an_overload_is_left_alone():
    there = fleet(streams=1, cores=1.0)
    there.turns(3)
    there.change("a", cpu_busy=0.99)
    there.turns(40)
    assert there.owner("s1") == "b"
    there.change("a", cpu_busy=0.1)
    there.change("b", cpu_busy=0.99)
    there.turns(round(STAY_S) - 20)
    assert there.count("prepare") == 1

    there.turns(60)
    assert there.count("prepare") == 2


def test_an_overload_that_nobody_can_take_is_told_and_moves_nothing():
    there = fleet(streams=8, cores=1.0)
    there.turns(3)
    for name in there.streams:
        there.load(name, 1.4)
    there.turns(100)

    assert there.count("prepare") == 0
    assert all("no node has room for one of its streams" in why for why in there.waiting.values())
    assert len(there.waiting) == 2


def test_many_overloaded_nodes_do_not_fall_upon_the_one_that_is_not():
    there = Fleet({name: node(name) for name in "abcdefgh"}, {f"s{n}": stream(f"s{n}", 0.5) for n in range(32)})
    there.turns(3)
    there.nodes["z"] = node("z")
    for name in "abcdefgh":
        there.change(name, cpu_busy=0.99)
    there.turns(35)

    assert there.count("prepare") == 1


def test_a_new_leader_moves_nothing_sooner():
    there = fleet(streams=2, cores=1.0)
    there.turns(3)
    there.change("a", cpu_busy=0.99)
    there.turns(29)
    there.memory = Memory()
    there.turns(29)

    assert there.count("prepare") == 0


def test_the_same_look_gives_the_same_steps_in_any_order():
    there = fleet(nodes="abc", streams=9)
    streams, nodes = list(there.streams.values()), list(there.nodes.values())

    forward = look(streams, nodes, Memory(), 0.0)
    assert look(streams[::-1], nodes[::-1], Memory(), 0.0) == forward


def test_offers_are_what_placement_does():
    there = fleet(nodes="abc", streams=4)
    there.change("c", leaving="drains")
    there.turn()
    new = stream("new", 2.0)
    found = offers(new, list(there.streams.values()), list(there.nodes.values()))
    there.streams["new"] = new
    there.turn()

    assert found[0].node == there.owner("new")
    assert (found[0].slots, found[0].fill, found[0].price) == (2.0, 0.5, 1.0)
    assert [(o.node, o.why_not) for o in found if o.why_not] == [("c", "drains")]
    assert found[0].as_json()["why_not"] == ""


def test_what_no_node_could_ever_run_is_known_at_once():
    nodes = [node("a"), node("b", 2)]

    assert never(stream("s", declared=3.0), nodes) == ""
    assert "a has 4 slots; the stream costs 5; b has 2 slots" in never(stream("s", declared=5.0), nodes)
    assert "a does not carry x" in never(stream("s", labels=("x",)), nodes)
    assert "has no GPU" in never(stream("s", gpu=1), nodes)
    assert "too little memory" in never(stream("s", mem_bytes=1), nodes)
    assert never(stream("s"), []) == "no node is there"


def test_a_gpu_and_memory_are_held_once():
    there = fleet(streams=0)
    for name in "ab":
        there.change(name, gpu=1, mem_bytes=100)
    there.streams = {f"s{n}": stream(f"s{n}", 0.1, gpu=1) for n in range(3)}
    there.turn()
    assert len(there.waiting) == 1
    there.streams = {f"m{n}": stream(f"m{n}", 0.1, mem_bytes=60) for n in range(3)}
    there.turn()
    assert len(there.waiting) == 1
