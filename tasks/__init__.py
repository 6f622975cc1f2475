"""The built-in tasks: each is a name, its options and one call into jetq.

``jetq.loader`` imports them all, and those of the user's folder as more modules of this package. A process that starts
afresh (a child of a spawn pool) imports them by name, so the folder is part of the package from its first import on.
"""

from __future__ import annotations

import os

if _app_dir := os.environ.get("JETQ_APP_DIR"):
    __path__.append(os.path.join(os.path.abspath(_app_dir), "tasks"))
