"""Run a turn again and again in a thread. The one place that catches everything: a loop outlives a bad turn."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable

from jetq.clock import boot_s
from jetq.errors import BrokerError
from jetq.log import Log

_log = Log("loop")


#: Intervals differ by this share, so that the loops of many nodes do not stay in step.
JITTER = 0.1
#: A loop whose turn failed rests for so long (s): most such mistakes come again, and a log has an end.
FAILED_S = 1.0


class Outage:
    """Tells once that the broker is away, and once that it is back, however many loops find out."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._lock = threading.Lock()

    def found(self, exc: BrokerError) -> None:
        """A call failed."""
        with self._lock:
            if self._since_s is None:
                self._since_s = boot_s()
                _log.warning("broker.away", why=exc)

    def over(self) -> None:
        """A call succeeded."""
        with self._lock:
            if self._since_s is not None:
                _log.info("broker.back", after_s=boot_s() - self._since_s)
                self._since_s = None


class Loop:
    """One duty on its own schedule. A turn that lasts longer than the interval delays only itself."""

    def __init__(self, name: str, every_s: float, turn: Callable[[], None], outage: Outage) -> None:
        self._name = name
        self._every_s = every_s
        self._turn = turn
        self._outage = outage
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Take the first turn now, the next each interval."""
        self._thread.start()

    def stop(self, within_s: float = 5.0) -> None:
        """Take no more turns; wait for the one that runs."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(within_s)

    def _run(self) -> None:
        next_s = boot_s()
        while not self._ended.wait(max(0.0, next_s - boot_s())):
            well = self._take_turn()
            next_s += self._every_s * random.uniform(1 - JITTER, 1 + JITTER)
            if next_s < boot_s():  # a turn took too long, or the machine slept: no burst of turns to catch up
                next_s = boot_s() + self._every_s
            if not well:
                next_s = max(next_s, boot_s() + FAILED_S)

    def _take_turn(self) -> bool:
        """Take one turn. False: it failed by a mistake of jetq's, which the log tells."""
        try:
            self._turn()
        except BrokerError as exc:
            self._outage.found(exc)
        except Exception as exc:  # noqa: BLE001 - a loop outlives a bad turn
            _log.error(
                "loop.failed",
                loop=self._name,
                error=f"{type(exc).__name__}: {exc}",
                trace=traceback.format_exc(limit=-3),
            )
            return False
        return True
