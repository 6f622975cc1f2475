"""The test server itself: its faults are what other tests build on."""

from __future__ import annotations

import pytest
import redis


def test_the_url_leads_to_an_empty_server(broker, redis_url):
    client = redis.Redis.from_url(redis_url)

    assert client.dbsize() == 0
    assert client.info("server")["process_id"] == broker.pid


def test_a_killed_server_comes_back_on_the_same_port_with_what_the_log_kept(start_broker):
    server = start_broker("--appendfsync", "always", appendonly=True)
    server.client().set("a", "1")
    url = server.url

    server.kill()
    server.start()

    assert server.url == url
    assert server.client().get("a") == "1"


def test_a_frozen_server_answers_only_after_the_thaw(start_broker):
    server = start_broker()
    client = redis.Redis.from_url(server.url, socket_timeout=0.2, retry=None)
    client.ping()

    server.freeze()
    with pytest.raises(redis.TimeoutError):
        client.ping()
    server.thaw()

    assert server.client().ping()
