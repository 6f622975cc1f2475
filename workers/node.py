"""Run one node of this home, for an image or a systemd unit: ``python workers/node.py [flags of jetq worker]``."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from jetq.cli import main

if __name__ == "__main__":
    sys.exit(main(["worker", *sys.argv[1:]]))
