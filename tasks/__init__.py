"""The work a node can do: built-in tasks here, and beside them those of the user's folder.

Each module holds tasks: a name, options, one call into jetq. ``jetq.loader`` imports them all. A process that starts
afresh (a child of a spawn pool) imports one by name, so the user's folder is part of this package from its first import.
"""

from __future__ import annotations

import os

if _app_dir := os.environ.get("JETQ_APP_DIR"):
    __path__.append(os.path.join(os.path.abspath(_app_dir), "tasks"))
