"""The message of the parts of a gang or a stream, before anybody knows their ids."""

from __future__ import annotations

import ast
import base64
import json

from jetq import wire
from jetq.config import Settings


def template(url: str) -> str:
    settings = Settings(broker_url=url)
    return wire.Producer(settings, wire.open_store(settings, url)).part_template(
        "gang", {"gang": "net", "command": "sh -c 'a \"b\"'"}
    )


def test_the_template_is_a_whole_message_but_for_id_and_number(redis_url):
    text = template(redis_url)

    message = json.loads(text.replace("@jetq-id@", "yard.1.0").replace("@jetq-pub@", "0123456789abcdef"))
    headers, properties = message["headers"], message["properties"]
    assert (headers["task"], headers["argsrepr"]) == ("gang.member", "()")
    assert ast.literal_eval(headers["kwargsrepr"]) == {"gang": "net", "command": "sh -c 'a \"b\"'"}
    assert {headers["id"], headers["root_id"], properties["correlation_id"]} == {"yard.1.0"}
    assert {headers["jetq_pub"], properties["delivery_tag"]} == {"0123456789abcdef"}
    assert headers["jetq"] == {"kind": "gang", "max_result_bytes": 1024**2}
    assert json.loads(base64.b64decode(message["body"]))[:2] == [[], {}]
    assert (properties["priority"], properties["delivery_info"]["routing_key"]) == (3, "jetq")
    assert "@jetq-" not in json.dumps(message)


def test_a_template_needs_no_answer_of_the_broker(start_broker):
    server = start_broker()
    settings = Settings(broker_url=server.url)
    producer = wire.Producer(settings, wire.open_store(settings, server.url))
    server.freeze()
    try:
        assert "@jetq-id@" in producer.part_template("gang", {})
    finally:
        server.thaw()
