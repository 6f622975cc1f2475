"""An application that keeps a cluster's cameras as a list says, and reads what they see.

    jetq up -d --nodes 4
    python examples/producer/cameras.py examples/producer/cameras.toml

Edit the list while it runs: cameras that come are added, those that go are cancelled, others are changed in place.
Ctrl-C ends the application; the streams go on without it, unless --cancel is given.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jetq import JetQ
from jetq.errors import BrokerDown, JetqError, UsageError
from jetq.streams import Applied

#: Between two looks at the list (s).
LOOK_S = 1.0


class Cameras:
    """The streams of a list, and a reader of the results of each."""

    def __init__(self, cluster: JetQ, path: Path, least_score: float) -> None:
        self._cluster, self._path, self._least_score = cluster, path, least_score
        self._ids: set[str] = set()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()  # of all readers
        self._seen: str | None = None  # the list at the last look
        self._done: str | None = None  # that was applied
        self._complaint = ""

    def follow(self) -> None:
        """Bring the cluster to what the list says, if it says something new. A list that is wrong changes nothing."""
        try:
            before, self._seen = self._seen, self._path.read_text()
            if self._seen == self._done or self._seen != before:  # whoever writes it may not be through
                return
            applied = self._cluster.apply_cameras(self._path)
        except (JetqError, OSError) as exc:  # it is tried again at the next look
            if not self._ids and not isinstance(exc, BrokerDown):
                raise
            if str(exc) != self._complaint:
                say(f"the cameras are left as they were: {exc}")
            self._complaint = str(exc)
            return
        self._done, self._complaint = self._seen, ""
        for one in applied:
            self._tell(one)
        for gone in sorted(self._ids - {one.id for one in applied}):
            self.cancel(gone)
        self._ids = {one.id for one in applied}

    def _tell(self, one: Applied) -> None:
        if one.verdict != "same":
            say(f"{one.id}: {one.verdict}{': ' + ', '.join(one.changes) if one.changes else ''}")
        if one.id not in self._ids:
            threading.Thread(target=self._read, args=(one.id,), daemon=True).start()

    def _read(self, stream: str) -> None:
        """Print what a stream sees from now on, until it ends."""
        try:
            for seen in self._cluster.results(stream):
                if seen["score"] >= self._least_score:
                    self._lines.put(described(seen))
            say(f"{stream}: has ended")
        except JetqError as exc:
            say(f"{stream}: {exc}")

    def show(self, until_s: float) -> None:
        """Print what the cameras see, until a time of the monotonic clock."""
        while (left_s := until_s - time.monotonic()) > 0:
            with suppress(queue.Empty):
                print(self._lines.get(timeout=left_s), flush=True)

    def cancel(self, stream: str) -> None:
        """Take a camera away."""
        self._cluster.job(stream).cancel("it is not in the list any more")
        say(f"{stream}: cancelled")

    def cancel_all(self) -> None:
        """Take all of them away."""
        for stream in sorted(self._ids):
            self.cancel(stream)


def described(seen: dict[str, Any]) -> str:
    """Say in a line what a camera saw."""
    at = time.strftime("%H:%M:%S", time.localtime(seen["at"]))
    boxes = len(seen["boxes"])
    return f"{at} {seen['stream']} score {seen['score']:.3f}, {boxes} box{'es' * (boxes != 1)}"


def say(text: str) -> None:
    """Tell the person something that is no result."""
    print(f"-- {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Follow the list until Ctrl-C. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Keep the cameras of a list on a cluster, and print what they see.")
    parser.add_argument("list", type=Path, help="TOML or CSV (docs/streams.md)")
    parser.add_argument("--score", type=float, default=0.0, help="print results of at least this score (0)")
    parser.add_argument("--cancel", action="store_true", help="cancel the streams at the end")
    parser.add_argument("--broker", help="URL (JETQ_BROKER_URL, else the `jetq up` of this machine)")
    asked = parser.parse_args()
    try:
        cameras = Cameras(JetQ(asked.broker), asked.list, asked.score)
        try:
            while True:
                cameras.follow()
                cameras.show(time.monotonic() + LOOK_S)
        except KeyboardInterrupt:
            if asked.cancel:
                cameras.cancel_all()
            return 0
    except BrokenPipeError:  # nobody reads what it prints any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (JetqError, OSError) as exc:  # its message says what to do
        print(exc, file=sys.stderr)
        return exc.exit_code if isinstance(exc, JetqError) else UsageError.exit_code


if __name__ == "__main__":
    sys.exit(main())
