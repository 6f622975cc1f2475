"""Measure every row of the budget: ``python -m benchmarks [--quick] [--only NAME ...] [--json FILE]``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROWS = ("publish", "pick", "path", "routing", "gang_queue", "gang_launch", "streams", "takeover", "faults")
#: Where figures go unless told otherwise; the folder is ignored by git.
OUT = Path("out/bench")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rows one after the other; write each one's figures, and all of them in one file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: its figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=ROWS, metavar="NAME", help="only these rows")
    parser.add_argument("--json", type=Path, default=OUT / "all.json", metavar="FILE", help="write all figures there")
    asked = parser.parse_args(argv)
    folder = asked.json.parent
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in asked.only:
        begin_s = time.monotonic()
        file = folder / f"{name}.json"
        more = ["--quick"] if asked.quick else []
        if name == "routing":
            more += ["--svg", str(folder / "routing.svg"), *(["--no-live"] if asked.quick else [])]
        importlib.import_module(f"benchmarks.{name}").main(["--json", str(file), *more])
        found.append(json.loads(file.read_text("utf-8")) | {"took_s": round(time.monotonic() - begin_s, 1)})
    asked.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(f"figures: {asked.json}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
