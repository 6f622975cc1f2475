"""Make the sinks that a stream asks for."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from jetq.errors import JetqError
from jetq.model.credentials import Secret
from jetq.model.stream import StreamSpec
from jetq.video.live.aside import Aside
from jetq.video.live.lines import Lines
from jetq.video.live.posting import Receiver
from jetq.video.live.segments import Segments
from jetq.video.live.shelf import Shelf
from jetq.video.live.sink import CLOSE_S, Kept, Seen, Sink, Tally
from jetq.video.live.webhook import Webhook

#: Of what all jobs may leave on a node, a stream's films and its lines take these shares: sixteen streams fit.
FILM_SHARE, LINES_SHARE = 32, 128
#: However little a node gives (bytes).
LEAST_FILM_BYTES, LEAST_LINES_BYTES = 8 * 1024**2, 1024**2
#: Results that may wait for the disk: lines are small, pictures are not.
LINES_WAITING, FILM_WAITING = 256, 3
#: Frames a second of a stream that takes all that come, for the film's head alone: each frame has its own time.
_FPS = 15.0


def make_sinks(spec: StreamSpec, secrets: Mapping[str, Secret], folder: Path, *, files_max_bytes: int) -> list[Sink]:
    """Return the sinks of a stream, in the order of its spec. Threads are started; make them after the last fork.

    Args:
        spec: of the stream.
        secrets: of its addresses, as they are shown.
        folder: where its files go (``JETQ_FILES_DIR``), there or not.
        files_max_bytes: of all that jobs have left on the node; the sinks take shares of it.
    """
    return [_make(name, spec, secrets, folder, files_max_bytes) for name in spec.sinks]


def close_sinks(sinks: Sequence[Sink]) -> None:
    """Keep what is in hand, of all at once: together they take no longer than the slowest."""
    closing = [threading.Thread(target=sink.close, name="close", daemon=True) for sink in sinks]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(CLOSE_S * 1.5)


def _make(name: str, spec: StreamSpec, secrets: Mapping[str, Secret], folder: Path, files_max_bytes: int) -> Sink:
    kind, _, address = name.partition(":")
    if kind == "jsonl":
        most = max(files_max_bytes // LINES_SHARE, LEAST_LINES_BYTES)
        return Aside(
            Lines(Shelf(folder, "results", "jsonl", most_bytes=most)), name, waiting=LINES_WAITING, pictures=False
        )
    if kind == "mp4":
        most = max(files_max_bytes // FILM_SHARE, LEAST_FILM_BYTES)
        shelf = Shelf(folder, "film", "mp4", most_bytes=most)
        return Aside(Segments(shelf, fps=spec.fps or _FPS), name, waiting=FILM_WAITING, pictures=True)
    try:
        return Webhook(Receiver(address, secrets.get(address)), name)
    except (JetqError, ValueError) as exc:
        return Nowhere(name, str(exc))


class Nowhere:
    """A sink that cannot be: its stream goes on, and says why nothing is kept there."""

    def __init__(self, name: str, why: str) -> None:
        self._tally = Tally(name)
        self._why = why

    @property
    def kept(self) -> Kept:
        """What became of them so far."""
        return self._tally.now

    def take(self, seen: Seen) -> None:
        """Count one result."""
        self._tally.drop(self._why)

    def close(self) -> None:
        """Nothing is in hand."""
