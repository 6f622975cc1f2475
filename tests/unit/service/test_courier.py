"""What a seat says comes to the ledger: all results in their order, also after the broker was away."""

from __future__ import annotations

import json
import threading

import pytest

from jetq.errors import BrokerDown
from jetq.service.courier import WAITING, Courier
from jetq.store.streaming import Heard


class Book:
    """A ledger that may be away."""

    def __init__(self) -> None:
        self.here, self.over = threading.Event(), False
        self.here.set()
        self.results: list[str] = []
        self.telemetry: dict[str, object] = {}
        self.ready = False
        self.owns = True

    def tell_seat(self, seat_id, token, telemetry, load, results, *, ready):
        if not self.here.is_set():
            raise BrokerDown("away")
        if self.over:
            return None
        self.results += results
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
    courier.say({}, None, [str(n) for n in range(WAITING)], ready=True)
    courier.say({}, None, ["new", "newer"], ready=True)

    book.here.set()

    wait_until(lambda: book.results, what="what waited")
    assert book.results[0] == "2"
    assert book.results[-2:] == ["new", "newer"]
    assert courier.dropped == 2


def test_what_an_heir_sees_is_not_missing_because_the_owner_tells_the_same(book, courier, wait_until):
    book.owns = False
    courier.say({}, None, ["1"], ready=True)

    wait_until(lambda: book.results, what="the heir's word")
    assert (courier.owns, courier.dropped) == (False, 0)


def test_a_seat_hears_that_its_stream_goes_on_without_it(book, courier, wait_until):
    book.over = True
    courier.say({}, None, [], ready=True)

    wait_until(courier.over.is_set, what="that it is over")
