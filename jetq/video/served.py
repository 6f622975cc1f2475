"""The model of `jetq video`: served by the submitter beside its films, and kept on each node that has read it."""

from __future__ import annotations

import http.client
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jetq.errors import VideoUnreadable
from jetq.video.models import ANALYZER, Shelf, digest_of, folder_beside
from jetq.video.place import Place

#: A submitter that sends nothing for so long is gone (s).
_PATIENCE_S = 10.0
_CHUNK = 1 << 20


def as_option(path: Path, place: Place) -> dict[str, Any]:
    """Return the option ``model`` that crosses the wire."""
    return {"place": place.as_json(), "digest": digest_of(path)}


def here(analyzer: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with the path that a model has on this node, after it was brought here if need be.

    Raises:
        VideoUnreadable: the submitter is gone. ModelAway: its file was changed, or this node has no room.
    """
    given = dict(options or {})
    model = given.get("model")
    if analyzer != ANALYZER or not isinstance(model, Mapping):
        return given
    place, digest = Place(**model["place"]), str(model["digest"])
    location = place.locate()
    if location != place.url and digest_of(Path(location)) == digest:
        return given | {"model": location}
    folder = folder_beside(os.environ.get("JETQ_JOBS_DIR"))
    path = Shelf(folder).get(digest, partial(_download, place))
    return given | {"model": str(path)}


def _download(place: Place, path: Path) -> None:
    parts = urlsplit(place.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_PATIENCE_S)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise VideoUnreadable(f"{place.name}: the submitter answered {answer.status}; is its file still there?")
        with path.open("wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
            if file.tell() != place.size_bytes:
                raise VideoUnreadable(f"{place.name}: reading stopped; is the submitter still there?")
    except (http.client.HTTPException, ConnectionError, TimeoutError) as exc:
        raise VideoUnreadable(f"{place.name}: cannot be read ({exc}); is the submitter still there?") from exc
    finally:
        connection.close()
