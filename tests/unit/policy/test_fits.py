"""Gangs that can never start, and what is said of them."""

from __future__ import annotations

import pytest

from jetq.model.needs import Needs
from jetq.policy.fits import missing, never_fits, said
from jetq.policy.timetable import Hold, Room
from jetq.policy.turns import QueuedGang

TWO_SLOTS = Needs(slots=2)


def gang(least: int, needs: Needs = TWO_SLOTS, *, over_streams: bool = False) -> QueuedGang:
    return QueuedGang("g", "train", 3, 0.0, least, least, needs, 60.0, over_streams)


def rooms(count: int, *first: Hold, why_not: str = "") -> list[Room]:
    return [Room(f"n{i}", 2, holds=first if not i else (), why_not=why_not) for i in range(count)]


def test_what_exists_fits_also_while_it_is_taken_or_drained():
    busy = rooms(3, Hold("j", "task", 2.0, ends_s=9.0), why_not="is draining")

    assert never_fits(gang(3), busy) is None


@pytest.mark.parametrize(
    ("asked", "there", "said_"),
    [
        (gang(4), 3, "the gang needs 4 nodes with 2 slots each, and only n0, n1, n2 have that; ask for less"),
        (gang(1, Needs(gpu=1)), 3, "the gang needs 1 node with 1 slot and a GPU each, and no node has that"),
        (gang(9), 8, "and only n0, n1, n2, n3 and 4 more have that"),
        (gang(1), 0, "no node has that"),
    ],
)
def test_more_than_exists_is_refused(asked, there, said_):
    error = never_fits(asked, rooms(there))

    assert error is not None
    assert said_ in str(error)
    assert error.exit_code == 2
    assert error.streams == ()


def test_streams_that_are_in_the_way_are_named():
    there = rooms(3, Hold("front-door", "stream", 1.0))

    error = never_fits(gang(3), there)

    assert error is not None
    assert error.streams == ("front-door on n0",)
    assert "beside the running streams only 2 of 3 have that: front-door on n0; cancel some, or move them with" in str(
        error
    )
    assert never_fits(gang(2), there) is None
    assert never_fits(gang(3, Needs(slots=1)), there) is None
    assert never_fits(gang(3, over_streams=True), there) is None


def test_a_camera_that_hangs_on_its_node_is_in_the_way_of_who_moves_streams_too():
    there = rooms(3, Hold("door", "camera", 1.0))

    error = never_fits(gang(3, over_streams=True), there)

    assert error is not None
    assert error.streams == ("door on n0",)
    assert str(error).endswith("beside the cameras that hang on nodes only 2 of 3 have that: door on n0; cancel some")
    assert never_fits(gang(3), there) is not None


def test_what_is_missing_now_is_said_of_a_gang_that_was_taken_once():
    there = [Room("a", 2), Room("b", 2, why_not="is draining")]

    assert missing(gang(2), there) == "needs 2 nodes with 2 slots each; b is draining"


def test_needs_are_said_in_words():
    assert said(Needs()) == "1 slot"
    assert said(Needs(("zone=yard",), 2.5, 1, 4 << 30)) == "2.5 slots, a GPU, 4 GiB and zone=yard"
