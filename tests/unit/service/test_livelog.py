"""Lines go into the node's file and into the ledger's live copy, whatever the broker does."""

from __future__ import annotations

import os
import threading
import time

import pytest

from jetq.errors import BrokerDown
from jetq.launch.output import Line
from jetq.service import livelog
from jetq.service.livelog import BATCH, WAITING, WIDTH, LiveLog
from jetq.store.redis import RedisStore, connect

ADDING_S = 1.0


@pytest.fixture
def file(tmp_path):
    """Give an fd that leads to a file, and the file."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield fd, path
    os.close(fd)


def copy_of(store: RedisStore) -> list[tuple[int | None, str]]:
    return [(line.rank, line.text) for line in store.gang_lines("g", limit=10_000)[1]]


def pusher(store: RedisStore):
    return lambda lines: store.tell_lines("g", "a", lines)


def test_lines_are_in_the_file_and_in_the_live_copy_in_order(redis_url, file):
    store = RedisStore(connect(redis_url), "jetq")
    fd, path = file

    with LiveLog(fd, pusher(store)) as log:
        for number in range(3 * BATCH):
            log.add(Line(number % 4, f"line {number} é"))
        log.add(Line(None, "its own word"))
        log.add(Line(None, "for the file"), live=False)

    said = [(number % 4, f"line {number} é") for number in range(3 * BATCH)] + [(None, "its own word")]
    assert copy_of(store) == said
    assert path.read_text().splitlines() == [
        *(f"[{'jetq' if rank is None else rank}] {text}" for rank, text in said),
        "[jetq] for the file",
    ]


def test_a_line_is_live_at_once(redis_url, wait_until):
    store = RedisStore(connect(redis_url), "jetq")
    with LiveLog(None, pusher(store)) as log:
        log.add(Line(0, "first"))

        wait_until(lambda: copy_of(store) == [(0, "first")], within_s=2, what="the first line")
        log.add(Line(0, "second"))
        wait_until(lambda: len(copy_of(store)) == 2, within_s=2, what="the second line")


def test_long_lines_are_cut_in_the_live_copy_only(redis_url, file):
    store = RedisStore(connect(redis_url), "jetq")
    fd, path = file

    with LiveLog(fd, pusher(store)) as log:
        log.add(Line(0, "x" * 60_000))

    ((_, text),) = copy_of(store)
    assert (len(text), text[-1]) == (WIDTH, "…")
    assert path.read_text() == "[0] " + "x" * 60_000 + "\n"


def test_a_broker_that_is_away_holds_nothing_up_and_what_is_lost_is_counted(start_broker, file, wait_until):
    broker = start_broker()
    store = RedisStore(connect(broker.url), "jetq")
    fd, path = file
    with LiveLog(fd, pusher(store)) as log:
        log.add(Line(0, "before"))
        wait_until(lambda: copy_of(store), what="a first line")
        broker.kill()
        begun_s = time.monotonic()
        for number in range(3 * WAITING):
            log.add(Line(0, f"line {number}"))
        assert time.monotonic() - begun_s < ADDING_S
        broker.start()

        wait_until(lambda: (0, f"line {3 * WAITING - 1}") in copy_of(store), within_s=20, what="the newest line")

    texts = [text for _, text in copy_of(store)]
    notes = [text for text in texts if "lines are missing here; `jetq job logs` has them" in text]
    lost = sum(int(note.split()[0]) for note in notes)
    kept = [text for text in texts if text.startswith("line")]
    assert lost + len(kept) == 3 * WAITING
    assert len(set(kept)) == len(kept)
    assert len(path.read_text().splitlines()) == 3 * WAITING + 1


def test_a_frozen_broker_gets_no_line_twice(start_broker, wait_until):
    broker = start_broker()
    store = RedisStore(connect(broker.url), "jetq")
    with LiveLog(None, pusher(store)) as log:
        log.add(Line(0, "line -1"))
        wait_until(lambda: copy_of(store), what="a first line")
        broker.freeze()
        for number in range(100):
            log.add(Line(0, f"line {number}"))
            threading.Event().wait(0.05)
        broker.thaw()
        wait_until(lambda: (0, "line 99") in copy_of(store), within_s=20, what="the newest line")

    texts = [text for _, text in copy_of(store)]
    assert len(set(texts)) == len(texts)


def test_it_ends_in_time_though_the_broker_does_not_come_back(start_broker):
    broker = start_broker()
    store = RedisStore(connect(broker.url), "jetq")
    broker.kill()
    begun_s = time.monotonic()

    with LiveLog(None, pusher(store)) as log:
        log.add(Line(0, "nobody hears it"))

    assert time.monotonic() - begun_s < livelog.LAST_S + ADDING_S


def test_threads_do_not_mix_their_lines_in_the_file(file):
    fd, path = file

    def away(lines: object) -> None:
        raise BrokerDown("away")

    with LiveLog(fd, away) as log:
        threads = [
            threading.Thread(target=lambda word=word: [log.add(Line(0, word * 20_000)) for _ in range(50)])
            for word in "abc"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert {len(set(line[4:])) for line in path.read_text().splitlines()} == {1}
    assert len(path.read_text().splitlines()) == 150
