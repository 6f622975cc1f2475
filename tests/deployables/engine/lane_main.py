"""Start one lane as the agent would: ``lane_main.py NODE EPOCH SIZE CONTROL_FD STATUS_FD``."""

from __future__ import annotations

import os
import sys

from jetq.config import Settings
from jetq.engine.app import create_app
from jetq.engine.lanes import run_lane

if __name__ == "__main__":
    node, epoch, size, control_fd, status_fd = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    settings = Settings.from_environ()
    os.environ.update(JETQ_NODE=node, JETQ_EPOCH=epoch)
    app = create_app(settings, os.environ["JETQ_BROKER_URL"])
    app.conf.include = [*app.conf.include, "lane_tasks"]
    sys.exit(
        run_lane(
            app,
            lane="tasks",
            node=node,
            epoch=epoch,
            pool_size=size,
            control_fd=control_fd,
            status_fd=status_fd,
            settings=settings,
        )
    )
