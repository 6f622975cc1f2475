"""The model of a stream's analyzer: checked and brought to the ledger by who sends the stream, fetched by its node.

In the stream's options it is ``blob:<sha256>``, or ``shared:<sha256>:<path>`` where it is too large for the broker and
lies in the folder that all nodes mount. So another content is another stream, whatever the file was called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jetq.errors import ModelAway, UsageError, WorkdirRefused
from jetq.store.blobs import BLOB
from jetq.video import models
from jetq.video.models import Shelf, digest_of
from jetq.video.place import shared_name

#: What is before the content's digest and the path of a model in the shared folder.
SHARED = "shared:"


class Depot(Protocol):
    """What the ledger does for models."""

    def keep_blob(self, blob_id: str) -> bool:
        """Let a blob stay for another day. False: it is not there."""
        ...

    def put_blob(self, blob_id: str, content: bytes) -> None:
        """Bring a blob."""
        ...

    def get_blob(self, blob_id: str, path: str | Path) -> bool:
        """Write a blob to a file. False: the ledger has it no more."""
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """An analyzer's options, ready to travel, and the model that has to travel with them."""

    options: dict[str, Any]
    blob_id: str | None = None  # None: nothing else travels
    path: Path | None = None  # of the model; None: the ledger has had it before


def pack_model(analyzer: str, options: Mapping[str, Any], shared: Path | None = None) -> Packed:
    """Return options that any node understands; asks nobody. Of another analyzer than ``onnx`` they stay as they are.

    Args:
        shared: the folder that all nodes mount.

    Raises:
        UsageError: there is no model, it cannot be read, or it is too large to travel.
    """
    given = models.with_labels(analyzer, options)
    if analyzer != models.ANALYZER:
        return Packed(given)
    model = given.get("model")
    if isinstance(model, str) and model.startswith(SHARED):
        return Packed(given)
    if isinstance(model, str) and model.startswith(BLOB):
        return Packed(given, model.removeprefix(BLOB))
    path = models.local_model(analyzer, given)
    if path is None:
        raise UsageError("the analyzer onnx needs the file of a model: model=FILE.onnx")
    within = shared_name(path, shared)
    if path.stat().st_size > models.MOST_BLOB_BYTES and within is not None:
        return Packed(given | {"model": f"{SHARED}{digest_of(path)}:{within}"})
    blob_id, _ = models.pack_model(path)
    return Packed(given | {"model": f"{BLOB}{blob_id}"}, blob_id, path)


def bring_model(ledger: Depot, packed: Packed) -> None:
    """Bring the model to the ledger, unless it is there.

    Raises:
        UsageError: the ledger has it no more, or the file was changed since it was packed.
        BrokerDown: it may or may not be there; bring it again.
    """
    if packed.blob_id is None or ledger.keep_blob(packed.blob_id):
        return
    if packed.path is None:
        raise UsageError(
            f"the model {packed.blob_id[:12]} is not in the ledger any more: give its file, model=FILE.onnx"
        )
    blob_id, content = models.pack_model(packed.path)
    if blob_id != packed.blob_id:
        raise UsageError(f"the model {packed.path} was changed while it was sent; send it again")
    ledger.put_blob(blob_id, content)


def fetch_model(
    ledger: Depot, options: Mapping[str, Any], folder: Path, *, shared: Path | None = None
) -> dict[str, Any]:
    """Return options with the path that the model has on this node; it is there then, and has the right content.

    Args:
        options: of a stream's analyzer.
        folder: keeps models on this node, for all its processes (`jetq.video.models.folder_beside`).
        shared: the folder that all nodes mount.

    Raises:
        ModelAway: it cannot be had; the message says why and what to do.
        BrokerDown: the ledger does not answer.
    """
    given, model = dict(options), options.get("model")
    if isinstance(model, str) and model.startswith(BLOB):
        blob_id = model.removeprefix(BLOB)
        return given | {"model": str(Shelf(folder).get(blob_id, partial(_taken, ledger, blob_id)))}
    if isinstance(model, str) and model.startswith(SHARED):
        digest, _, name = model.removeprefix(SHARED).partition(":")
        return given | {"model": str(_found(digest, name, shared))}
    return given


def _taken(ledger: Depot, blob_id: str, path: Path) -> None:
    try:
        if not ledger.get_blob(blob_id, path):
            raise ModelAway(blob_id, "the ledger has it no more; send the stream again with its file")
    except WorkdirRefused as exc:
        raise ModelAway(blob_id, exc.why) from exc


def _found(digest: str, name: str, shared: Path | None) -> Path:
    """Return a model in the shared folder."""
    if shared is None:
        raise ModelAway(digest, f"it is {name} in the folder that all nodes mount; say where that is (JETQ_SHARED)")
    path = (shared / name).resolve()
    try:
        if not path.is_relative_to(shared.resolve()):
            raise ModelAway(digest, f"{name} leads out of the folder that all nodes mount")
        if digest_of(path) != digest:
            raise ModelAway(digest, f"{path} has another content than when the stream was sent; send it again")
    except OSError as exc:
        raise ModelAway(digest, f"{path} cannot be read: {exc.strerror}; is the folder mounted?") from exc
    return path
