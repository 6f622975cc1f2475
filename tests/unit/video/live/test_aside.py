"""A sink that is slow, hangs or fails holds up no frame: what it cannot take is dropped, and counted."""

from __future__ import annotations

import threading
import time

import pytest

from jetq.video.live.aside import Aside
from jetq.video.live.sink import Kept, Tally

#: A result that is too much for it.
FATAL = 1313


class Slow:
    """Takes what it is let to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.numbers: list[int] = []
        self.shapes: list[tuple[int, ...]] = []
        self.closed = False
        self._tally = Tally("slow")

    @property
    def kept(self) -> Kept:
        return self._tally.now

    def take(self, seen) -> None:
        self.go.wait(10)
        if seen.number == FATAL:
            raise RuntimeError("of its own")
        self.numbers.append(seen.number)
        self.shapes.append(seen.picture().shape)
        self._tally.keep()

    def close(self) -> None:
        self.closed = True


def test_results_come_in_order_and_the_rest_at_the_end(seen):
    slow = Slow()
    slow.go.set()
    sink = Aside(slow, "slow", waiting=50, pictures=True)
    for number in range(1, 41):
        sink.take(seen(number))
    sink.close()

    assert slow.numbers == list(range(1, 41))
    assert slow.shapes[0] == (90, 160, 3)
    assert slow.closed
    assert sink.kept == Kept(40, 0, "")


def test_a_sink_that_hangs_takes_no_time_of_the_stream_nor_pictures_that_nobody_needs(seen):
    slow = Slow()
    sink = Aside(slow, "slow", waiting=3, pictures=False)
    began_s = time.monotonic()
    for number in range(1, 101):
        sink.take(seen(number))
    took_s = time.monotonic() - began_s
    hung = sink.kept
    sink.close()
    closed_s = time.monotonic() - began_s - took_s
    slow.go.set()

    assert took_s < 0.5
    assert closed_s < 1.2
    assert hung.dropped in (96, 97)
    assert hung.why == "it takes longer than the frames come"
    assert sink.kept.dropped == 99  # one is in its hands
    assert sink.kept.why == "the stream has ended"


def test_pictures_do_not_wait_for_a_sink_that_needs_none(seen):
    slow = Slow()
    slow.go.set()
    sink = Aside(slow, "slow", waiting=3, pictures=False)
    sink.take(seen(1))
    sink.close()

    assert slow.shapes == [(0, 0, 3)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sink_that_fails_is_said_to_and_the_stream_goes_on(seen, wait_until):
    slow = Slow()
    slow.go.set()
    sink = Aside(slow, "slow", waiting=3, pictures=True)
    sink.take(seen(FATAL))

    def says() -> bool:
        sink.take(seen(14))
        return sink.kept.why == "it has failed; the job's log says how"

    wait_until(says)
    sink.close()
    sink.close()
