"""A stream's sinks are made from its words; what cannot be made is told and holds up nothing."""

from __future__ import annotations

import json
import time

from jetq.model.stream import StreamSpec, wish
from jetq.video.live.making import close_sinks, make_sinks
from jetq.video.live.sink import Kept

SPACE = 2 * 1024**3


def test_each_word_is_a_sink_in_their_order(tmp_path, receiver, seen):
    address = receiver.address.replace("http://", "http://jo:hunter2@")
    spec, secrets = wish({"uri": "test:ball", "fps": 10, "sinks": ["mp4", f"webhook:{address}", "jsonl"]})
    sinks = make_sinks(spec, secrets, tmp_path / "files", files_max_bytes=SPACE)
    for sink in sinks:
        sink.take(seen(1))
    for sink in sinks:
        sink.close()

    assert [sink.kept for sink in sinks] == [Kept(1, 0, "")] * 3
    assert sorted(path.name.partition("-")[0] for path in (tmp_path / "files").iterdir()) == ["film", "results"]
    assert [row["n"] for row in receiver.bodies.get_nowait()] == [1]
    assert "hunter2" not in json.dumps(spec.as_json())


def test_no_sink_is_no_sink_and_touches_nothing(tmp_path):
    assert make_sinks(StreamSpec("test:ball"), {}, tmp_path / "files", files_max_bytes=SPACE) == []
    assert make_sinks(StreamSpec("test:ball", sinks=("jsonl",)), {}, tmp_path / "files", files_max_bytes=0)
    assert not (tmp_path / "files").exists()


def test_receivers_that_hang_end_together(tmp_path, receiver, seen):
    receiver.orders = ["hang"] * 9
    spec = StreamSpec("test:ball", sinks=(*(f"webhook:{receiver.address}{n}" for n in range(4)), "mp4"))
    sinks = make_sinks(spec, {}, tmp_path, files_max_bytes=SPACE)
    for sink in sinks:
        sink.take(seen(1))
    began_s = time.monotonic()
    close_sinks(sinks)

    assert time.monotonic() - began_s < 1.9
    assert [sink.kept.dropped for sink in sinks] == [1, 1, 1, 1, 0]
    assert sinks[-1].kept == Kept(1, 0, "")


def test_a_webhook_whose_credentials_are_missing_says_so_for_each_result(tmp_path, seen):
    spec, _ = wish({"uri": "test:ball", "sinks": ["webhook:http://a:b@hook/x"]})
    [sink] = make_sinks(spec, {}, tmp_path, files_max_bytes=SPACE)
    sink.take(seen(1))
    sink.close()

    assert sink.kept.dropped == 1
    assert sink.kept.why.startswith("the credentials of http://***@hook/x are missing")
