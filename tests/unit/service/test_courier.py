"""What a seat says comes to the ledger: all results in their order, also after the broker was away."""

from __future__ import annotations

import json
import threading

import pytest

from jetq.errors import BrokerDown
from jetq.service.courier import WAITING, WAITING_WIDTH, Courier
from jetq.store.streaming import Heard


class Book:
    """A ledger that may be away."""

    def __init__(self) -> None:
        self.here, self.over = threading.Event(), False
        self.here.set()
        self.results: list[str] = []
        self.telemetry: dict[str, object] = {}
        self.ready = False
        self.owns, self.garbles = True, False
        self.said: list[tuple[int, int]] = []  # number of the first result, how many

    def tell_seat(self, seat_id, token, telemetry, load, results, *, first, ready):
        if not self.here.is_set():
            raise BrokerDown("away")
        if self.over:
            return None
        if self.garbles:
            raise ValueError("no answer that anybody could read")
        self.said.append((first, len(results)))
        self.results += results[max(0, len(self.results) - first) :]
        self.telemetry, self.ready = json.loads(telemetry), ready
        return Heard(self.owns, 1, {})


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def courier(book):
    made = Courier(book, "gate.1", "0-a", lambda _: None)
    yield made
    made.close(2)


def test_results_come_to_the_ledger_in_their_order(book, courier, wait_until):
    courier.say({"state": "streaming"}, None, ["1", "2"], ready=True)
    wait_until(lambda: book.results, what="the first ones")
    courier.say({"state": "streaming"}, None, ["3"], ready=True)

    wait_until(lambda: len(book.results) == 3, what="the last one")
    assert book.results == ["1", "2", "3"]
    assert (book.telemetry, book.ready, courier.dropped) == ({"state": "streaming"}, True, 0)


def test_results_wait_while_the_broker_is_away_and_the_oldest_of_too_many_are_counted(book, courier, wait_until):
    book.here.clear()
    courier.say({"state": "streaming"}, None, [str(n) for n in range(WAITING)], ready=True)
    courier.say({"state": "streaming"}, None, ["new", "newer"], ready=True)

    book.here.set()

    wait_until(lambda: book.results, what="what waited")
    assert book.results[0] == "2"
    assert book.results[-2:] == ["new", "newer"]
    assert courier.dropped == 2


def test_what_an_heir_sees_is_not_missing_because_the_owner_tells_the_same(book, courier, wait_until):
    book.owns = False
    courier.say({"state": "streaming"}, None, ["1"], ready=True)

    wait_until(lambda: book.results, what="the heir's word")
    assert (courier.owns, courier.dropped) == (False, 0)


def test_a_seat_hears_that_its_stream_goes_on_without_it(book, courier, wait_until):
    book.over = True
    courier.say({"state": "streaming"}, None, [], ready=True)

    wait_until(courier.over.is_set, what="that it is over")


def test_results_with_pictures_take_no_more_memory_than_others(book, courier, wait_until):
    book.here.clear()
    courier.say({"state": "streaming"}, None, ["x" * (WAITING_WIDTH // 4)] * 6, ready=True)

    assert courier.dropped == 2
    book.here.set()
    wait_until(lambda: len(book.results) == 4, what="what waited")
    assert book.said[-1] == (2, 4)


def test_results_are_numbered_so_that_those_of_a_lost_answer_are_known_again(book, courier, wait_until):
    for number in range(3):
        courier.say({"state": "streaming"}, None, [str(number)], ready=True)
        wait_until(lambda: len(book.results) == number + 1, what="one more")  # noqa: B023

    assert [first for first, count in book.said if count] == [0, 1, 2]


def test_that_frames_come_is_told_at_once(book, courier, wait_until):
    courier.say({"state": "streaming"}, None, [], ready=False)
    wait_until(lambda: book.said, what="the first word")

    courier.say({"state": "streaming"}, None, [], ready=True)

    wait_until(lambda: book.ready, within_s=0.2, what="the next one")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_courier_that_fails_ends_its_seat(book, courier, wait_until):
    book.garbles = True
    courier.say({"state": "streaming"}, None, ["1"], ready=True)

    wait_until(courier.over.is_set, what="the end")
    assert "ValueError: no answer" in courier.fault


def test_nothing_is_told_before_there_is_something_to_tell(book, courier, wait_until):
    assert not wait_briefly(lambda: book.said)
    courier.say({"state": "connecting"}, None, [], ready=False)

    wait_until(lambda: book.telemetry, what="the first word")


def wait_briefly(condition):
    """Whether a condition comes true in a moment."""
    end = threading.Event()
    return any(condition() or end.wait(0.05) for _ in range(10))
