"""Ask the ledger until it answers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from jetq.errors import BrokerDown
from jetq.log import Log

_log = Log("run")
T = TypeVar("T")


def patiently(call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call the ledger until the broker answers. All its calls may be repeated."""
    tries = 0
    while True:
        try:
            return call(*args, **kwargs)
        except BrokerDown:
            tries += 1
            if tries == 1:
                _log.warning("broker.waiting")
            time.sleep(min(1.0, 0.05 * tries) * (0.5 + random.random()))
