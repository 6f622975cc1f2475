"""Ask now and then whether a gang still goes on with its member: a ledger tells nobody of whom it knows nothing.

A broker that lost its last writes may have lost the start that a member belongs to. Its gang then waits, or has started
anew: what runs here is nobody's, and a gang may not run twice at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from jetq.errors import BrokerDown
from jetq.log import Log

#: Time between two questions (s).
EVERY_S = 2.0

_log = Log("member")


class Belonging:
    """Asks while it is open, in a thread of its own: a broker that is slow holds up nobody."""

    def __init__(self, ask: Callable[[], bool], stop: threading.Event) -> None:
        """``ask`` tells whether the gang goes on with this member; where not, ``stop`` is set."""
        self._ask, self._stop = ask, stop
        self._closed = threading.Event()

    def __enter__(self) -> Belonging:
        threading.Thread(target=self._run, name="belonging", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(EVERY_S) and not self._stop.is_set():
            try:
                goes_on = self._ask()
            except BrokerDown:  # nobody knows; what runs goes on
                continue
            if not goes_on and not self._closed.is_set():
                _log.warning("member.left_alone", why="its gang goes on without it")
                self._stop.set()
