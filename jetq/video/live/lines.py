"""The sink ``jsonl``: one JSON object a line, in files that take turns."""

from __future__ import annotations

import json
import time

from jetq.video.live.growing import Growing, add_with_room, reopen, whole_lines
from jetq.video.live.shelf import LOOK_S, Shelf
from jetq.video.live.sink import Kept, Seen, Tally


class Lines:
    """Keeps each result as a line. A file that an earlier runner has left is mended and gone on with."""

    def __init__(self, shelf: Shelf) -> None:
        """Touch nothing yet."""
        self._shelf = shelf
        self._tally = Tally("jsonl")
        self._file: Growing | None = None
        self._again = True  # an earlier runner may have left a file
        self._failed_s = -LOOK_S
        self._fault = ""

    @property
    def kept(self) -> Kept:
        """What became of them so far."""
        return self._tally.now

    def take(self, seen: Seen) -> None:
        """Write one line."""
        try:
            line = as_json(seen).encode() + b"\n"
        except (TypeError, ValueError) as exc:
            self._tally.drop(unwritable(exc))
            return
        lack = self._shelf.lack(beginning=self._file is None)
        if lack or time.monotonic() - self._failed_s < LOOK_S:
            self._tally.drop(lack or self._fault)
            return
        try:
            add_with_room(self._open(len(line), seen.at_s), line, self._shelf)
        except OSError as exc:
            self._failed_s, self._fault = time.monotonic(), f"the disk did not take it ({exc.strerror})"
            self._tally.drop(self._fault)
            self.close()
        else:
            self._tally.keep()

    def close(self) -> None:
        """Let go of the file; each line is in it already."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._again = True

    def _open(self, more_bytes: int, at_s: float) -> Growing:
        """Return the file that has room for so much more (bytes).

        Raises:
            OSError: there is none.
        """
        if self._file is None and self._again and (there := self._shelf.files()):
            self._file = reopen(there[-1].path, whole_lines)
        self._again = False
        if self._file is not None and self._file.size_bytes + more_bytes > self._shelf.piece_bytes:
            self._file.close()
            self._file = None
        if self._file is None:
            self._file = Growing(*self._shelf.begin(at_s))
        return self._file


def as_json(seen: Seen) -> str:
    """Return a result as one line of JSON.

    Raises:
        TypeError, ValueError: an analyzer gave what JSON has not.
    """
    return json.dumps(seen.as_line(), separators=(",", ":"), allow_nan=False)


def unwritable(exc: Exception) -> str:
    """Say why a result could not be written as JSON."""
    return f"its analyzer gave what JSON has not ({exc})"
