"""``python -m jetq``: the same as the command ``jetq``."""

import sys

from jetq.cli import main

if __name__ == "__main__":
    sys.exit(main())
