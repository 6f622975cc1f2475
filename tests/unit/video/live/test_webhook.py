"""Results are posted in batches, again until they are taken; what a receiver does holds up and ends no stream."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from jetq.model.credentials import Secret, take_apart
from jetq.video.live import webhook
from jetq.video.live.posting import Receiver as Posting
from jetq.video.live.sink import Kept
from jetq.video.live.webhook import Webhook


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Webhook]]:
    monkeypatch.setattr(webhook, "GATHER_S", 0.02)
    monkeypatch.setattr(webhook, "FIRST_S", 0.05)
    monkeypatch.setattr(webhook, "MOST_S", 0.1)
    monkeypatch.setattr("jetq.video.live.posting.ANSWER_S", 0.3)
    monkeypatch.setattr("jetq.video.live.posting.CONNECT_S", 0.5)
    made: list[Webhook] = []

    def make(address: str) -> Webhook:
        shown, secret = take_apart(address)
        made.append(Webhook(Posting(shown, secret), f"webhook:{shown}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def numbers(receiver) -> list[int]:
    return [row["n"] for batch in list(receiver.bodies.queue) for row in batch]


def test_results_come_in_batches_over_one_connection(sink, receiver, seen, wait_until):
    hook = sink(receiver.address)
    for number in range(1, 251):
        hook.take(seen(number))

    wait_until(lambda: hook.kept.kept == 250)
    assert numbers(receiver) == list(range(1, 251))
    assert receiver.bodies.qsize() <= 10
    assert receiver.heads[0].startswith("POST /hook HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\n" in receiver.heads[0]
    assert receiver.bodies.queue[0][0] | {"at": 0} == seen(1).as_line() | {"at": 0, "boxes": [[10, 20, 30, 40]]}
    assert hook.kept == Kept(250, 0, "")


@pytest.mark.parametrize(
    "order", ["500 Internal Server Error", "503 Busy|Retry-After: 0", "429 Too Many|Retry-After: x", "408 Slow"]
)
@pytest.mark.parametrize("more", ["die", "hang", "half"])
def test_what_may_pass_is_tried_again_and_nothing_is_lost(sink, receiver, seen, wait_until, order, more):
    receiver.orders = [order, more, order]
    hook = sink(receiver.address)
    for number in range(1, 4):
        hook.take(seen(number))

    wait_until(lambda: hook.kept.kept == 3)
    assert sorted(set(numbers(receiver))) == [1, 2, 3]
    assert not receiver.orders
    assert hook.kept == Kept(3, 0, "")


def test_a_receiver_that_asks_for_time_gets_it(sink, receiver, seen, wait_until):
    receiver.orders = ["429 Too Many Requests|Retry-After: 1"]
    hook = sink(receiver.address)
    began_s = time.monotonic()
    hook.take(seen(1))

    wait_until(lambda: hook.kept.kept == 1)
    assert time.monotonic() - began_s >= 1.0


@pytest.mark.parametrize("order", ["400 Bad Request", "401 Unauthorized", "404 Not Found", "413 Too Large"])
def test_a_refusal_is_not_tried_again(sink, receiver, seen, wait_until, order):
    receiver.orders = [order]
    hook = sink(receiver.address)
    hook.take(seen(1))
    wait_until(lambda: hook.kept.dropped == 1)
    refused = hook.kept
    hook.take(seen(2))

    wait_until(lambda: hook.kept.kept == 1)
    assert refused.why == f"{receiver.address} answers {order}"
    assert numbers(receiver) == [2]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect"])
def test_a_redirect_is_told_and_not_followed(sink, receiver, seen, wait_until, status):
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.2)
        to = f"http://thief:pw@127.0.0.1:{elsewhere.getsockname()[1]}/x?token=abc"
        receiver.orders = [f"{status}|Location: {to}"]
        host = receiver.address.removeprefix("http://")
        hook = sink(f"http://jo:hunter2@{host}")
        hook.take(seen(1))
        wait_until(lambda: hook.kept.dropped == 1)
        with pytest.raises(TimeoutError):
            elsewhere.accept()

    assert "redirects are not followed" in hook.kept.why
    assert "***@127.0.0.1" in hook.kept.why
    assert "token=***" in hook.kept.why
    assert not any(word in hook.kept.why for word in ("hunter2", "abc", "thief", "pw"))


def test_credentials_are_sent_and_never_shown(sink, receiver, seen, wait_until, caplog):
    receiver.orders = ["401 hunter/2 is wrong, and so is t0ken&c"]
    host = receiver.address.removeprefix("http://")
    hook = sink(f"http://jo:hunter%2F2@{host}?token=t0ken%26c&x=1")
    hook.take(seen(1))
    wait_until(lambda: hook.kept.dropped == 1)

    sent = receiver.heads[0]
    assert sent.startswith("POST /hook?token=t0ken%26c&x=1 HTTP/1.1\r\n")
    assert f"Authorization: Basic {base64.b64encode(b'jo:hunter/2').decode()}\r\n" in sent
    assert f"Host: 127.0.0.1:{receiver.port}\r\n" in sent
    assert hook.kept.why == f"http://***@{host}?token=***&x=1 answers 401 *** is wrong, and so is ***"
    assert "sink.drops" in caplog.text
    assert not any(word in caplog.text for word in ("hunter", "t0ken"))


def test_while_nobody_is_there_the_oldest_are_dropped_and_counted(sink, seen, wait_until, monkeypatch, caplog):
    monkeypatch.setattr(webhook, "WAITING", 50)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hook = sink(f"http://127.0.0.1:{port}/hook")
    for number in range(1, 201):
        hook.take(seen(number))
    wait_until(lambda: "cannot be reached" in hook.kept.why)

    assert caplog.text.count("sink.drops") + caplog.text.count("sink.waits") == 1
    began_s = time.monotonic()
    hook.close()
    assert time.monotonic() - began_s < 1.2
    assert hook.kept.dropped == 200
    assert hook.kept.kept == 0


def test_the_newest_are_posted_once_the_receiver_is_back(sink, receiver, seen, wait_until, monkeypatch):
    monkeypatch.setattr(webhook, "WAITING", 50)
    receiver.orders = ["503 Down"] * 4
    hook = sink(receiver.address)
    for number in range(1, 201):
        hook.take(seen(number))

    wait_until(lambda: hook.kept.kept + hook.kept.dropped == 200)
    assert numbers(receiver)[-50:] == list(range(151, 201))
    assert hook.kept.kept == len(numbers(receiver))


def test_memory_is_bounded(sink, receiver, seen, wait_until, monkeypatch):
    monkeypatch.setattr(webhook, "WAITING_BYTES", 20_000)
    receiver.orders = ["hang"]
    hook = sink(receiver.address)
    many = tuple((n, n, n, n) for n in range(300))
    for number in range(1, 21):
        hook.take(seen(number, boxes=many))
    wait_until(lambda: hook.kept.kept + hook.kept.dropped == 20)

    assert hook.kept.dropped > 5
    assert numbers(receiver)[-1] == 20

    hook.take(seen(21, boxes=many * 200))
    assert "is too large" in hook.kept.why


def test_a_receiver_that_hangs_holds_up_neither_stream_nor_end(sink, receiver, seen, monkeypatch):
    monkeypatch.setattr("jetq.video.live.posting.ANSWER_S", 60.0)
    receiver.orders = ["hang", "hang"]
    hook = sink(receiver.address)
    began_s = time.monotonic()
    for number in range(1, 101):
        hook.take(seen(number))
    took_s = time.monotonic() - began_s
    hook.close()

    assert took_s < 0.5
    assert time.monotonic() - began_s < 2.0
    assert hook.kept.kept == 0
    assert hook.kept.dropped == 100


def test_what_is_in_hand_is_posted_at_the_end(sink, receiver, seen, monkeypatch):
    monkeypatch.setattr(webhook, "GATHER_S", 30.0)
    hook = sink(receiver.address)
    for number in range(1, 4):
        hook.take(seen(number))
    hook.close()

    assert numbers(receiver) == [1, 2, 3]
    assert hook.kept == Kept(3, 0, "")


def test_what_json_has_not_is_dropped(sink, receiver, seen, wait_until):
    hook = sink(receiver.address)
    hook.take(seen(1, odd=float("inf")))
    hook.take(seen(2))

    wait_until(lambda: hook.kept.kept == 1)
    assert hook.kept.dropped == 1
    assert json.loads(json.dumps(numbers(receiver))) == [2]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://no.such.host.invalid/x", "cannot be reached"),
        ("https://127.0.0.1:{port}/x", "cannot be reached"),
        ("http://127.0.0.1:{port}/\u00e4 b?q=\u00fc", ""),
    ],
)
def test_addresses_that_cannot_be_and_odd_ones(sink, receiver, seen, wait_until, address, why):
    hook = sink(address.format(port=receiver.port))
    hook.take(seen(1))
    if not why:
        wait_until(lambda: hook.kept.kept == 1)
        assert receiver.heads[0].startswith("POST /%C3%A4%20b?q=%C3%BC HTTP/1.1")
        return
    wait_until(lambda: hook._failures)
    hook.close()
    assert hook.kept.dropped == 1


def test_a_secret_that_is_missing_is_said_when_it_is_made():
    with pytest.raises(Exception, match="credentials of http://\\*\\*\\*@hook/x are missing"):
        Posting("http://***@hook/x", None)
    assert repr(Secret("a", "b")) == "Secret(***)"
