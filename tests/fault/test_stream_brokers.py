"""A broker that ends, freezes or forgets while streams run on boards: they go on, each where it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.fault.boards import Boards, wait
from tests.fault.boards import boards as build_boards
from tests.fault.streams import Streams, Witness
from tests.fault.test_cut_file import OPTIONS, Disk

pytestmark = pytest.mark.xdist_group("stream-brokers")
EIGHT = [f"cam{number}" for number in range(8)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Boards]:
    """Give two boards with a node on each; all that their broker has acknowledged is on its disk."""
    with build_boards(tmp_path_factory.mktemp("boards"), ("nano1", "orin"), *OPTIONS) as made:
        made.start_all()
        yield made


@pytest.fixture
def streams(cluster: Boards) -> Iterator[Streams]:
    """Give eight streams that run on them."""
    cluster.mend()
    found = Streams(cluster)
    for stream in EIGHT:
        found.want(stream)
    found.wait_streaming(*EIGHT)
    yield found
    found.end_all()


def lives(streams: Streams) -> dict[str, tuple[int, int]]:
    """Return how many steps were done with each stream, and how often its runner was started anew."""
    turns = streams.turns(*EIGHT)
    return {stream: (turns[stream], streams.told(stream)["reconnects"]) for stream in EIGHT}


def pids(streams: Streams) -> set[int]:
    return {pid for node in streams.boards.by_name.values() for pid in streams.runners(node)}


def wait_more(witness: Witness, count: int = 5) -> None:
    """Wait until each stream has so many more results."""
    seen = {stream: len(tale.sights) for stream, tale in witness.tales.items()}
    wait(
        lambda: all(len(tale.sights) >= seen[stream] + count for stream, tale in witness.tales.items()),
        30,
        "more results",
        row=lambda: {stream: len(tale.sights) - seen[stream] for stream, tale in witness.tales.items()},
    )


def pass_time(seconds: float) -> None:
    """Let some time pass: that is the fault."""
    since_s = time.monotonic()
    wait(lambda: time.monotonic() - since_s >= seconds, seconds + 5, "some time")


@pytest.mark.parametrize("away_s", [0, 8], ids=["at once", "after 8 s"])
def test_streams_go_on_where_they_are_while_their_broker_is_killed_and_comes_back(streams, away_s):
    before, runners, homes = lives(streams), pids(streams), streams.homes()

    with Witness(streams.boards.url, EIGHT) as witness:
        wait_more(witness)
        streams.boards.broker.kill()
        pass_time(away_s)
        streams.boards.broker.start()
        wait_more(witness)

    assert pids(streams) == runners, "no runner was started anew"
    assert (lives(streams), streams.homes()) == (before, homes)
    assert witness.doubled == {}
    assert all(len(tale.owners) == 1 for tale in witness.tales.values())
    numbers = [[sight.number for sight in tale.sights] for tale in witness.tales.values()]
    assert all(seen == list(range(seen[0], seen[0] + len(seen))) for seen in numbers), (
        "what they saw meanwhile came, too"
    )


def test_streams_go_on_where_they_are_while_their_broker_is_frozen(streams):
    before, runners, homes = lives(streams), pids(streams), streams.homes()

    with Witness(streams.boards.url, EIGHT) as witness:
        wait_more(witness)
        streams.boards.broker.freeze()
        pass_time(7)
        streams.boards.broker.thaw()
        wait_more(witness)

    assert pids(streams) == runners
    assert (lives(streams), streams.homes()) == (before, homes)
    assert witness.doubled == {}


def test_streams_go_on_where_they_are_after_their_broker_has_lost_its_last_writes(streams):
    disk, before, runners, homes = Disk(streams.boards.broker), lives(streams), pids(streams), streams.homes()

    with Witness(streams.boards.url, EIGHT) as witness:
        wait_more(witness)
        cut = disk.size
        wait_more(witness, 20)
        disk.lose_power(cut)
        wait_more(witness)

    assert pids(streams) == runners
    assert (lives(streams), streams.homes()) == (before, homes)
    assert all(len(tale.owners) == 1 for tale in witness.tales.values())


def test_a_start_that_a_cut_took_away_ends_up_as_one_owner(streams):
    """The ledger forgets that a stream was placed at all: what runs of it ends before, or as, it is placed anew."""
    disk = Disk(streams.boards.broker)
    cut = disk.size
    streams.want("late")
    streams.wait_streaming("late")

    disk.lose_power(cut)
    wait(lambda: len(pids(streams)) == 8, 30, "the end of who is not known", row=lambda: pids(streams))
    streams.want("late")
    streams.wait_streaming(*EIGHT, "late")
    with Witness(streams.boards.url, [*EIGHT, "late"]) as witness:
        wait_more(witness)

    assert witness.doubled == {}
    assert all(len(tale.owners) == 1 for tale in witness.tales.values())
    assert len(pids(streams)) == 9


def test_a_move_that_a_cut_took_away_ends_up_as_one_owner(streams):
    disk = Disk(streams.boards.broker)
    home = streams.homes()["cam0"]
    other = next(name for name in streams.boards.by_name if name != home)
    with Witness(streams.boards.url, EIGHT) as witness:
        wait_more(witness)
        cut = disk.size
        streams.want("cam0", labels=[f"node={other}"])
        wait(lambda: streams.homes().get("cam0") == other, 20, "its move")
        wait(lambda: len(pids(streams)) == 8, 10, "the end of its old owner")

        disk.lose_power(cut)
        wait_more(witness)
        streams.wait_streaming(*EIGHT)
        wait(lambda: len(pids(streams)) == 8, 30, "one runner for each")
        wait_more(witness)

    assert witness.doubled == {}
