"""What holds for any fleet: 200 streams on 10 nodes through deaths, drains and overloads; and random small ones."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetq.model.stream import StreamSpec
from jetq.policy.decode import budget
from jetq.policy.overload import OVERLOAD_S
from jetq.policy.seats import Stream, StreamNode, Taken
from jetq.policy.streamcost import Load, Machine, guess
from jetq.policy.streams import Memory, look
from tests.unit.policy.fleet import Fleet

#: Boards, their slots and cores, and how fast one core is.
BOARDS = [("AGX Orin 64GB", 12, 12, 0.59), ("Orin NX 16GB", 8, 8, 0.53), ("pc", 16, 16, 1.0), ("Xavier NX", 6, 6, 0.23)]


def yard(draw: random.Random, nodes: int, streams: int, share: float) -> Fleet:
    """Return a fleet whose streams together take ``share`` of what its nodes have."""
    machines = [draw.choice(BOARDS) for _ in range(nodes)]
    there = {
        f"n{number}": StreamNode(
            f"n{number}", Machine(slots, cores, speed, budget(board)), labels=frozenset({f"node=n{number}"})
        )
        for number, (board, slots, cores, speed) in enumerate(machines)
    }
    whole = sum(cores * speed for _, _, cores, speed in machines)
    each = share * whole / streams
    found = {
        f"s{number}": Stream(f"s{number}", Load(each * draw.uniform(0.5, 1.5), 640 * 360 * 15.0, "h265"))
        for number in range(streams)
    }
    return Fleet(there, found)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_200_streams_on_10_nodes_are_spread_evenly_and_stay(seed):
    there = yard(random.Random(seed), 10, 200, 0.6)
    there.turn()

    fills = there.fills().values()
    assert max(fills) <= 1.08 * sum(fills) / len(fills)
    there.turns(100)
    assert len(there.steps) == 200


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_200_streams_live_through_deaths_drains_and_overloads(seed):
    draw = random.Random(seed)
    there = yard(draw, 10, 200, 0.5)
    gone: dict[str, StreamNode] = {}
    bound = Counter[str]()  # moves that deaths, drains and overloads account for
    there.turns(3)
    for minute in range(10):
        name = draw.choice(sorted(there.nodes))
        mine = sum(1 for s in there.streams if there.owner(s) == name)
        what = ("dies", "drains", "heats", "grows")[minute % 4]
        bound["start" if what == "dies" else "prepare"] += mine
        if what == "dies":
            gone[name] = there.nodes.pop(name)
        elif what == "drains":
            there.change(name, leaving="drains")
        elif what == "heats":
            there.change(name, cpu_busy=1.0, hot=True, trim=0.5)
        else:
            for stream in [s for s in there.streams if there.owner(s) == name]:
                there.load(stream, there.streams[stream].load.cores * 1.5)
        there.turn()
        assert not there.waiting
        assert not any(there.unowned_looks.values())
        there.turns(28, 2.0)
        if what == "dies" or (gone and draw.random() < 0.7):
            back = draw.choice(sorted(gone))
            there.nodes[back] = gone.pop(back)
        if what == "drains":
            assert not any(there.owner(s) == name for s in there.streams)
            there.change(name, leaving="")
        there.change(name, cpu_busy=None, hot=False, trim=1.0)
        there.turn()

    assert there.count("start") - 200 <= bound["start"]
    assert there.count("prepare") <= bound["prepare"]
    assert there.count("drop") == there.count("stop") == 0
    assert there.count("hand") == there.count("prepare")
    quiet_s = there.now_s
    there.turns(60, 2.0)
    assert not [step for step in there.steps if step[0] >= quiet_s + 2 * OVERLOAD_S]


@pytest.mark.parametrize("seed", range(5))
def test_after_deaths_the_rest_is_still_even(seed):
    there = yard(random.Random(seed), 10, 200, 0.4)
    there.turns(3)
    for name in ("n3", "n7"):
        del there.nodes[name]
        there.turns(2)

    fills = there.fills().values()
    assert max(fills) <= 1.08 * sum(fills) / len(fills)


def test_a_look_at_200_streams_that_are_well_changes_nothing():
    there = yard(random.Random(9), 10, 200, 0.6)
    there.turns(3)

    seen = look(list(there.streams.values()), list(there.nodes.values()), there.memory, there.now_s)
    assert (seen.steps, dict(seen.waiting)) == ((), {})


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["dies", "returns", "drains", "resumes", "busy", "calm", "grows", "shrinks", "gang", "new", "ends", "asked"]
        ),
        st.integers(0, 5),
        st.integers(1, 40),
    ),
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(_EVENTS, st.integers(2, 4), st.integers(0, 12), st.randoms(use_true_random=False))
def test_any_fleet_keeps_one_owner_and_comes_to_rest(events, nodes, streams, draw):
    there = yard(draw, nodes, max(1, streams), 0.5)
    whole = dict(there.nodes)
    for stream_id in sorted(there.streams)[:2]:
        node = draw.choice(sorted(whole))
        there.streams[stream_id] = replace(there.streams[stream_id], local=True, labels=(f"node={node}",))
    there.mute = lambda stream, node: crc32(f"{stream.id} {node}".encode()) % 8 == 0
    for what, number, seconds in events:
        name = f"n{number % nodes}"
        _happens(there, whole, what, name, f"s{number}")
        there.turn()
        for stream in there.streams.values():  # who has no node has a reason
            assert there.owner(stream.id) in there.nodes or stream.id in there.waiting
        there.turns(seconds)

    for name in there.nodes:
        there.change(name, cpu_busy=None, leaving="")
    there.mute = lambda stream, node: False
    there.streams = {s.id: replace(s, asked="") for s in there.streams.values()}
    there.turns(250, 3.0)
    assert not [step for step in there.steps if step[0] >= there.now_s - 200]


def _happens(there: Fleet, whole: dict[str, StreamNode], what: str, name: str, stream: str) -> None:
    changed = {
        "drains": {"leaving": "drains"},
        "resumes": {"leaving": ""},
        "busy": {"cpu_busy": 0.99},
        "calm": {"cpu_busy": 0.2},
        "gang": {"gangs": Taken(slots=2.0)},
    }
    if what == "dies":
        there.nodes.pop(name, None)
    elif what == "returns":
        there.nodes.setdefault(name, whole[name])
    elif what == "new":
        there.streams.setdefault(stream, Stream(stream, Load(0.5, 0.0, "")))
    elif what == "ends":
        there.streams.pop(stream, None)
    elif what in ("grows", "shrinks") and stream in there.streams:
        there.load(stream, there.streams[stream].load.cores * (2.0 if what == "grows" else 0.5))
    elif what == "asked" and stream in there.streams:
        there.streams[stream] = replace(there.streams[stream], asked="makes room for a gang")
    elif what in changed and name in there.nodes:
        there.change(name, **changed[what])


def boards(count: int) -> list[StreamNode]:
    return [StreamNode(f"nx{n}", Machine(8, 8, 0.53, budget("Orin NX 16GB"))) for n in range(count)]


def cameras(count: int, fps: float) -> list[Stream]:
    spec = StreamSpec("rtsp://cam/1", fps=fps)
    return [Stream(f"s{n}", guess(spec)) for n in range(count)]


def test_by_guess_a_customers_sixteen_cameras_fit_four_boards_evenly():
    seen = look(cameras(16, 15), boards(4), Memory(), 0.0)

    assert Counter(step.node for step in seen.steps) == {f"nx{n}": 4 for n in range(4)}


@pytest.mark.parametrize(
    ("fps", "most", "why"), [(15, 8, "of 8 slots free; the stream costs"), (5, 10, "its decoder is at 100%")]
)
def test_by_guess_no_board_gets_more_than_its_processors_or_its_decoder_take(fps, most, why):
    seen = look(cameras(64, fps), boards(4), Memory(), 0.0)

    assert Counter(step.node for step in seen.steps) == {f"nx{n}": most for n in range(4)}
    assert len(seen.waiting) == 64 - 4 * most
    assert all(why in waits for waits in seen.waiting.values())
