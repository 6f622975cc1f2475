"""Blobs: all of it or nothing under its name, whoever brings it and whatever breaks."""

from __future__ import annotations

import json
import threading

import pytest

from jetq.errors import BrokerDown, BrokerFull, WorkdirRefused
from jetq.model.stream import StreamSpec
from jetq.store import blobs
from jetq.store.blobs import BLOB_TTL_S, PIECE
from jetq.store.redis import RedisStore, connect

ID = "ab" * 32
#: Three pieces, none like the next.
CONTENT = b"".join(bytes([n]) * PIECE for n in range(2)) + b"end"


@pytest.fixture
def store(redis_url) -> RedisStore:
    return RedisStore(connect(redis_url), "t")


def ttl_s(store: RedisStore) -> int:
    return int(store.client.ttl(f"{store.prefix}blob:{ID}"))


def names(store: RedisStore) -> set[str]:
    return {key.decode().removeprefix(store.prefix).partition(":")[0] for key in store.client.keys("*")}


def test_a_blob_comes_back_as_it_went(store, tmp_path):
    store.put_blob(ID, CONTENT)
    assert store.get_blob(ID, tmp_path / "blob")

    assert (tmp_path / "blob").read_bytes() == CONTENT
    assert store.has_blob(ID)
    assert names(store) == {"blob"}


def test_a_blob_stays_a_day_after_each_use(store, tmp_path):
    store.put_blob(ID, CONTENT)
    assert BLOB_TTL_S - 5 < ttl_s(store) <= BLOB_TTL_S

    for use in (lambda: store.keep_blob(ID), lambda: store.get_blob(ID, tmp_path / "blob")):
        store.client.expire(f"{store.prefix}blob:{ID}", 100)
        use()
        assert BLOB_TTL_S - 5 < ttl_s(store) <= BLOB_TTL_S


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("gangs", {"workdir": "needed"}),
        ("streams", StreamSpec("test:ball", analyzer="onnx", options={"model": "blob:needed"}).as_json()),
    ],
)
def test_what_a_gang_or_a_stream_needs_stays_for_another_day(store, kind, spec):
    for blob_id in ("needed", "other"):
        store.put_blob(blob_id, b"content")
        store.client.expire(f"{store.prefix}blob:{blob_id}", 60)
    store.client.hset(f"{store.prefix}job:j", "spec", json.dumps(spec))
    store.client.zadd(f"{store.prefix}{kind}", {"j": 1.0})
    store.keep_needed()

    assert store.client.ttl(f"{store.prefix}blob:needed") > BLOB_TTL_S - 60
    assert store.client.ttl(f"{store.prefix}blob:other") <= 60


def test_a_blob_that_is_not_there_is_said_and_leaves_no_file(store, tmp_path):
    assert not store.has_blob(ID)
    assert not store.keep_blob(ID)
    assert not store.get_blob(ID, tmp_path / "blob")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_one_line(store, tmp_path):
    store.put_blob(ID, CONTENT)

    with pytest.raises(WorkdirRefused, match="none/blob cannot be written: No such file"):
        store.get_blob(ID, tmp_path / "none/blob")


def test_two_who_bring_the_same_blob_at_once_are_fine(store, redis_url, tmp_path):
    bringing = [
        threading.Thread(target=RedisStore(connect(redis_url), "t").put_blob, args=(ID, CONTENT)) for _ in range(4)
    ]
    for thread in bringing:
        thread.start()
    for thread in bringing:
        thread.join(20)

    store.get_blob(ID, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == CONTENT
    assert names(store) == {"blob"}


def test_an_upload_that_is_cut_leaves_no_half_blob(start_broker):
    server = start_broker()
    store = RedisStore(connect(server.url), "t")
    told = store._send

    def cut_after_two(commands, *, atomic):
        answer = told(commands, atomic=atomic)
        if commands[1][2] == PIECE:  # the second piece has arrived
            server.kill()
        return answer

    store._send = cut_after_two  # type: ignore[method-assign]
    with pytest.raises(BrokerDown):
        store.put_blob(ID, CONTENT)
    server.start()

    assert not store.has_blob(ID)


@pytest.mark.parametrize("lost", [0, PIECE])
def test_a_piece_that_the_broker_lost_makes_no_blob(store, lost):
    told = store._send

    def forgetting(commands, *, atomic):
        answer = told(commands, atomic=atomic)
        if commands[1][2] == lost:
            store.client.delete(commands[1][1])
        return answer

    store._send = forgetting  # type: ignore[method-assign]
    with pytest.raises(BrokerDown, match="send it again"):
        store.put_blob(ID, CONTENT)

    assert not store.has_blob(ID)


def test_what_is_left_of_an_upload_goes_by_itself(store, monkeypatch, wait_until):
    monkeypatch.setattr(blobs, "UPLOAD_TTL_S", 1)
    store._run = lambda *_args: 0  # type: ignore[method-assign]  # it never gets its name
    with pytest.raises(BrokerDown):
        store.put_blob(ID, CONTENT)

    assert names(store) == {"upload"}
    wait_until(lambda: not names(store), 5, "the end of the upload")


def test_a_broker_without_memory_says_so(start_broker):
    store = RedisStore(connect(start_broker("--maxmemory", "4mb", "--maxmemory-policy", "noeviction").url), "t")

    with pytest.raises(BrokerFull):
        store.put_blob(ID, CONTENT * 4)

    assert not store.has_blob(ID)
