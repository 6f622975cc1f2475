"""Read what a stream has seen, as it sees it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator

from jetq.errors import BrokerDown, NoSuchJob, UsageError
from jetq.model.limits import BROKER_PATIENCE_S
from jetq.store.streaming import Seen, Sights

#: Between two looks for new results (s).
LOOK_S = 0.2
_PLACE = re.compile(r"(\d{1,20}-\d{1,20})?")


def results(
    ledger: Sights, stream_id: str, *, after: str | None = None, timeout: float | None = None, follow: bool = True
) -> Iterator[Seen]:
    """Yield what a stream sees, oldest first, until it has ended.

    Args:
        after: the ``place`` of a result: those that came behind it; ``""``: from the oldest that is kept on; None: new
            ones only.
        timeout: end after so long without a result (s); None: wait for as long as it takes.
        follow: False: those that are there now.

    Raises:
        NoSuchJob: unknown id. BrokerDown: for 30 s.
        UsageError: it is no stream, or a bad value.
    """
    if timeout is not None and math.isnan(timeout):
        raise UsageError("timeout must be a number of seconds, not nan; leave it out to wait for as long as it takes")
    if after is not None and not _PLACE.fullmatch(after):
        raise UsageError(f"after must be the place of a result, or empty, not {after!r:.40}")
    row = ledger.job(stream_id)
    if row is None:
        raise NoSuchJob(stream_id)
    if row.kind != "stream":
        raise UsageError(f"only streams see something all the time, and {stream_id} is none; see `jetq job show`")
    place = ledger.last_result(stream_id) if after is None else after
    return _from(ledger, stream_id, place, timeout, follow)


def _from(ledger: Sights, stream_id: str, place: str, timeout: float | None, follow: bool) -> Iterator[Seen]:
    answered_s = seen_s = time.monotonic()
    while True:
        try:
            row = ledger.job(stream_id)  # before the look: what came until it ended is found
            place, found = ledger.results(stream_id, place)
        except BrokerDown:
            if not follow or time.monotonic() - answered_s > BROKER_PATIENCE_S:
                raise
            time.sleep(LOOK_S)
            continue
        answered_s = time.monotonic()
        if found:
            yield from found
            seen_s = time.monotonic()
        elif not follow or row is None or row.ended or (timeout is not None and answered_s - seen_s >= timeout):
            return
        else:
            time.sleep(LOOK_S)
