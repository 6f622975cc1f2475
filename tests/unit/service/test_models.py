"""The model of a stream: to a real ledger and back onto a node, by its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from jetq.errors import ModelAway, UsageError
from jetq.service.janitor import Janitor
from jetq.service.models import bring_model, fetch_model, pack_model
from jetq.store.redis import RedisStore, connect
from jetq.video import models as travelling

CONTENT = b"a model, more or less"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(redis_url: str) -> RedisStore:
    return RedisStore(connect(redis_url), "t")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    return tmp_path / "m.onnx"


def test_a_model_goes_to_the_ledger_and_comes_out_on_a_node(store: RedisStore, model: Path, tmp_path: Path):
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    packed = pack_model("onnx", {"model": str(model), "labels": str(tmp_path / "names.txt"), "task": "classify"})
    bring_model(store, packed)
    model.unlink()
    found = fetch_model(store, packed.options, tmp_path / "models")

    assert packed.options == {"model": f"blob:{DIGEST}", "labels": ["cat", "dog"], "task": "classify"}
    assert found == packed.options | {"model": str(tmp_path / "models" / f"{DIGEST}.onnx")}
    assert Path(found["model"]).read_bytes() == CONTENT


def test_a_model_that_the_node_has_needs_no_ledger(store: RedisStore, model: Path, tmp_path: Path):
    packed = pack_model("onnx", {"model": str(model)})
    bring_model(store, packed)
    fetch_model(store, packed.options, tmp_path / "models")
    store.client.flushdb()

    assert fetch_model(store, packed.options, tmp_path / "models")["model"].endswith(f"{DIGEST}.onnx")


def test_a_model_that_is_there_is_not_sent_again(store: RedisStore, model: Path):
    packed = pack_model("onnx", {"model": str(model)})
    bring_model(store, packed)
    model.write_bytes(b"other")
    bring_model(store, packed)
    bring_model(store, pack_model("onnx", packed.options))

    assert store.has_blob(DIGEST)


def test_a_file_that_changes_on_the_way_is_told(store: RedisStore, model: Path):
    packed = pack_model("onnx", {"model": str(model)})
    model.write_bytes(b"other")

    with pytest.raises(UsageError, match="was changed while it was sent"):
        bring_model(store, packed)


def test_a_blob_that_is_lost_is_told_to_sender_and_node(store: RedisStore, tmp_path: Path):
    options = {"model": f"blob:{DIGEST}"}

    with pytest.raises(UsageError, match="is not in the ledger any more: give its file"):
        bring_model(store, pack_model("onnx", options))
    with pytest.raises(ModelAway, match="the ledger has it no more; send the stream again"):
        fetch_model(store, options, tmp_path / "models")
    assert [path.suffix for path in (tmp_path / "models").iterdir()] == [".lock"]


def test_a_blob_of_other_content_is_not_taken(store: RedisStore, tmp_path: Path):
    store.put_blob(DIGEST, b"something else")

    with pytest.raises(ModelAway, match="what arrived is something else"):
        fetch_model(store, {"model": f"blob:{DIGEST}"}, tmp_path / "models")


@pytest.mark.parametrize("name", ["blob:../../x", "blob:", "shared:abc:../../etc/passwd", "shared:abc:none.onnx"])
def test_names_lead_nowhere_else(store: RedisStore, tmp_path: Path, name: str):
    (tmp_path / "shared").mkdir()

    with pytest.raises(ModelAway):
        fetch_model(store, {"model": name}, tmp_path / "models", shared=tmp_path / "shared")


def test_what_is_too_large_for_the_broker_is_read_in_the_shared_folder(
    store: RedisStore, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(travelling, "MOST_BLOB_BYTES", 10)
    packed = pack_model("onnx", {"model": str(model)}, shared=tmp_path)
    bring_model(store, packed)

    assert packed.options == {"model": f"shared:{DIGEST}:m.onnx"}
    assert pack_model("onnx", packed.options) == packed
    assert fetch_model(store, packed.options, tmp_path / "models", shared=tmp_path) == {"model": str(model)}
    assert not (tmp_path / "models").exists()
    with pytest.raises(ModelAway, match="say where that is"):
        fetch_model(store, packed.options, tmp_path / "models")
    model.write_bytes(b"trained again")
    with pytest.raises(ModelAway, match="has another content than when the stream was sent"):
        fetch_model(store, packed.options, tmp_path / "models", shared=tmp_path)
    with pytest.raises(UsageError, match="is the most that travels"):
        pack_model("onnx", {"model": str(model)}, shared=tmp_path / "elsewhere")


def test_other_analyzers_keep_their_options(store: RedisStore, tmp_path: Path):
    packed = pack_model("own:Eye", {"model": "what it likes", "labels": "x"})
    bring_model(store, packed)

    assert packed.options == {"model": "what it likes", "labels": "x"}
    assert fetch_model(store, packed.options, tmp_path / "models") == packed.options


def test_onnx_without_a_model_is_refused():
    with pytest.raises(UsageError, match="needs the file of a model"):
        pack_model("onnx", {"task": "raw"})


@pytest.mark.parametrize(
    "odd", ["", "{", "null", "[]", '{"options": 3}', '{"options": {"model": 3}}', '{"workdir": 1}']
)
def test_the_model_of_a_stream_outlives_its_day(store: RedisStore, odd: str):
    needed, unused = "ab" * 32, "cd" * 32
    for blob in (needed, unused):
        store.put_blob(blob, b"x")
        store.client.expire(f"{store.prefix}blob:{blob}", 100)
    specs = {"odd": odd, "cam": json.dumps({"uri": "csi:0", "options": {"model": f"blob:{needed}"}})}
    for number, (stream, spec) in enumerate(specs.items()):
        store.client.zadd(f"{store.prefix}streams", {stream: number})
        store.client.hset(f"{store.prefix}job:{stream}", "spec", spec)
    Janitor(store, keep_s=3600, dead_s=5).turn()

    assert store.client.ttl(f"{store.prefix}blob:{needed}") > 3600
    assert store.client.ttl(f"{store.prefix}blob:{unused}") <= 100
