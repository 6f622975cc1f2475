"""Read what a runner says, line by line: whatever runs in its process may write to its channel, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jetq.errors import JetqError

#: A longer line is none of a runner's (bytes): a report has at most a quarter of a second's results.
MOST_LINE = 16 * 1024 * 1024
#: What each line has one of, and what a report has.
_KINDS = frozenset({"opened", "end", "busy_s", "results"})
_REPORT = frozenset({"good", "raises", "trace", "frame_age_s", "cpu_s", "fps_in"})


class RunnerWords:
    """What one runner has said."""

    def __init__(self) -> None:
        self._rest = b""  # of a line that has no end yet

    def take(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """Give the lines that are whole now.

        Raises:
            JetqError: this is no runner's.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield _read(line)
        if len(self._rest) > MOST_LINE:
            raise _foreign(self._rest)


def _read(line: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise _foreign(line) from None
    if not isinstance(said, dict) or not _KINDS & said.keys() or ("results" in said and not said.keys() >= _REPORT):
        raise _foreign(line)
    return said


def _foreign(line: bytes) -> JetqError:
    return JetqError(f"something in its process writes where only jetq may: {line[:40]!r}")
