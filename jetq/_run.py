"""Run the command line by file name: ``python …/jetq/_run.py VERB …``, the way jetq starts itself.

Unlike ``python -m jetq`` it keeps the current folder off the import path, where a ``redis.py`` or ``tasks/`` of the
user's would win.
"""

import os
import sys

if __name__ == "__main__":
    sys.path[0:1] = []  # jetq's own folder: its modules are no top-level ones
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from jetq.cli import main

    sys.exit(main())
