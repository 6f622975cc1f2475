"""Start one lane as the agent would: ``lane_main.py NODE EPOCH SIZE CONTROL_FD STATUS_FD PAGE_FD``."""

from __future__ import annotations

import os
import sys

from jetq.config import Settings
from jetq.engine.app import create_app
from jetq.engine.lanes import run_lane
from jetq.store.redis import RedisStore

SEAMS = ("claim", "finish", "settle")


def seam(call: str) -> None:
    """Let the process kill itself right before or after a call of the ledger, once, where a test has asked for it."""
    plain = getattr(RedisStore, call)

    def through(store, job_id, *args, **kwargs):
        die(store, f"before {call}", job_id)
        answer = plain(store, job_id, *args, **kwargs)
        die(store, f"after {call}", job_id)
        return answer

    setattr(RedisStore, call, through)


def die(store: RedisStore, where: str, job_id: str) -> None:
    """Kill this process if the test has asked for it."""
    if store.client.getdel(f"die {where} {job_id}"):
        os.kill(os.getpid(), 9)


if __name__ == "__main__":
    for name in SEAMS:
        seam(name)
    node, epoch, size, control_fd, status_fd, page_fd = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
    settings = Settings.from_environ()
    os.environ.update(JETQ_NODE=node, JETQ_EPOCH=epoch)
    app = create_app(settings, os.environ["JETQ_BROKER_URL"])
    app.conf.include = [*app.conf.include, "lane_tasks"]
    sys.exit(
        run_lane(
            app,
            lane=sys.argv[7] if len(sys.argv) > 7 else "tasks",
            node=node,
            epoch=epoch,
            pool_size=size,
            control_fd=control_fd,
            status_fd=status_fd,
            page_fd=page_fd,
            settings=settings,
        )
    )
