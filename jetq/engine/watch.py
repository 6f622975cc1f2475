"""The guard thread of a lane: ends the lane and all below it once its time is over, also when its agent is frozen.

It waits for nothing but its pause: no log, no disk, no broker. The agent tells of it (jetq.page: ``fenced_s``).
"""

from __future__ import annotations

import threading
import time

from jetq import process
from jetq.clock import boot_s
from jetq.page import Page

#: Looks within the time after which a silent node is dead: one each 0.1 s of the usual 5.
LOOKS = 50


def start(page: Page, *, dead_s: float) -> None:
    """Start it. Its deadline is the agent's to put off."""
    threading.Thread(target=_watch, args=(page, dead_s / LOOKS), name="watch", daemon=True).start()


def _watch(page: Page, every_s: float) -> None:
    while not 0 < page.good_until_s < boot_s():
        time.sleep(every_s)
    page.fenced_s = boot_s()
    process.end_all()
