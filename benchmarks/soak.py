"""A random mix of work under random faults, checked at the end against what the bodies wrote themselves.

    python benchmarks/soak.py --minutes 10 --seed 1

Prints ``lost 0, twice 0, leaked 0`` and exits 0, or names what went wrong and exits 1. Counted are

    lost     jobs that were taken and did not end, or not as they must, or SUCCEEDED without an end of their body
    twice    effects that stand twice under one token
    leaked   leases, messages, keys and processes that are left when all is over
    repeats  bodies that ended again because their process was killed between their end and the ledger's hearing of it:
             what tokens are for
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

if not __package__:  # run by path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks._soak_faults import Faults
from benchmarks._soak_load import Ledgered, Load
from benchmarks.app.tasks.soak import RECORD
from jetq import process
from jetq.broker.folder import UpFolder
from jetq.config import Settings
from jetq.store import keys
from jetq.store.redis import RedisStore, connect
from jetq.wire import create_app

APP_DIR = Path(__file__).resolve().parent / "app"
#: Sends a second, and the pause between two faults (s), on average.
RATE, PAUSE_S = 8.0, 6.0
#: When the faults are over, everything must have ended within this (s).
SETTLE_S = 180.0


@dataclass(slots=True)
class Findings:
    """What the check found, with examples."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    repeats: int = 0
    states: Counter[str] = field(default_factory=Counter)

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.twice or self.leaked)

    def __str__(self) -> str:
        return f"lost {len(self.lost)}, twice {len(self.twice)}, leaked {len(self.leaked)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the soak and print what it found. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks/soak.py", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long work and faults go on; default: 10")
    parser.add_argument("--seed", type=int, default=1, help="of the mix and of the faults; default: 1")
    parser.add_argument("--slots", default="3,2,1", help="of the nodes; default: 3,2,1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and record in this folder")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="jetq-soak-") as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        findings, counts = _soak(folder, asked.minutes * 60, asked.seed, asked.slots)
    if asked.json:
        asked.json.write_text(json.dumps({**counts, "states": findings.states, "found": str(findings)}) + "\n")
    for what in (*findings.lost[:10], *findings.twice[:10], *findings.leaked[:10]):
        print(what)
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    print(
        ", ".join(f"{state} {count}" for state, count in sorted(findings.states.items())), f"repeats {findings.repeats}"
    )
    print(findings)
    return 0 if findings.good else 1


def _soak(folder: Path, seconds: float, seed: int, slots: str) -> tuple[Findings, dict[str, int]]:
    record = folder / "record"
    record.touch()
    with _cluster(folder, record, slots) as (url, up_pid):
        store = RedisStore(connect(url), "jetq")
        app = create_app(Settings(broker_url=url), url, current=False)
        load = Load(app, store, random.Random(seed))
        faults = Faults(up_pid, store, random.Random(seed + 1))
        _run(load, faults, seconds, random.Random(seed + 2))
        faults.resume(*(node.name for node in store.nodes()))
        findings = Findings()
        _await_ends(store, load.taken)
        _check_jobs(store, load.taken, record, findings)
        _check_ledger(store, findings)
        gc.collect()  # Celery's results unsubscribe when they go: not after the broker has gone
    _check_processes(folder, findings)
    counts = {"sends": load.taken.sends, "sent again": load.taken.again, "jobs": len(load.taken.want), **faults.done}
    return findings, counts


def _run(load: Load, faults: Faults, seconds: float, rng: random.Random) -> None:
    """Send and break until the time is over."""
    over = threading.Event()

    def breaks() -> None:
        while not over.wait(rng.uniform(0.3, 2 * PAUSE_S - 0.3)):
            faults.step()

    breaker = threading.Thread(target=breaks)
    breaker.start()
    end_s = time.monotonic() + seconds
    try:
        while time.monotonic() < end_s:
            load.step()
            time.sleep(rng.expovariate(RATE))
    finally:
        over.set()
        breaker.join()


@contextmanager
def _cluster(folder: Path, record: Path, slots: str) -> Iterator[tuple[str, int]]:
    """Start `jetq up` with nodes; yield the broker's URL and its pid; stop it."""
    home = folder / "up"
    env = {k: v for k, v in os.environ.items() if not k.startswith("JETQ_")}
    env |= {"JETQ_DIR": str(home), RECORD: str(record), "JETQ_GRACE_S": "10"}
    nodes = str(len(slots.split(",")))
    words = ("up", "-d", "--nodes", nodes, "--slots", slots, "--app-dir", str(APP_DIR), "--no-web", "--json")
    facts = json.loads(_jetq(env, *words))
    state = UpFolder(home).running()
    if state is None:
        raise SystemExit(f"`jetq up` does not run: {facts}")
    try:
        yield state.url, state.pid
    finally:
        _jetq(env, "down")


def _jetq(env: dict[str, str], *words: str) -> str:
    out = tempfile.TemporaryFile()  # noqa: SIM115 - read below
    with out:
        child = process.spawn(process.self_argv(*words), env=env, stdout=out)
        code = child.wait(180)
        out.seek(0)
        text = out.read().decode()
    if code != 0:
        raise SystemExit(f"jetq {' '.join(words)} ended with {code}: {text}")
    return text


def _await_ends(store: RedisStore, taken: Ledgered) -> None:
    end_s = time.monotonic() + SETTLE_S
    left = set(taken.want)
    while left and time.monotonic() < end_s:
        left = {job for job in left if (row := store.job(job)) is None or not row.ended}
        time.sleep(0.5)


def _check_jobs(store: RedisStore, taken: Ledgered, record: Path, findings: Findings) -> None:
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    for line in record.read_text().splitlines():
        what, job, token, _at = line.split()
        if what == "end":
            ends[job][token] += 1
    for job, states in taken.want.items():
        row = store.job(job)
        state = row.state if row else "unknown"
        findings.states[state] += 1
        if state not in states:
            why = row.error or row.reason if row else "the ledger does not know it"
            story = row.history if row else []
            findings.lost.append(f"lost: {job} is {state}, not {' or '.join(sorted(states))}: {why} {story}")
        if state == "SUCCEEDED" and not ends[job]:
            findings.lost.append(f"lost: {job} is SUCCEEDED, but its body never ended")
        findings.twice += [f"twice: {job} under {token}" for token, times in ends[job].items() if times > 1]
        findings.repeats += max(0, len(ends[job]) - 1)


def _check_ledger(store: RedisStore, findings: Findings) -> None:
    """Wait until nothing is held or waits, then say what is left."""
    end_s = time.monotonic() + 30
    while (left := _left(store)) and time.monotonic() < end_s:
        time.sleep(0.5)
    findings.leaked += [f"leaked: {what}" for what in left]


def _left(store: RedisStore) -> list[str]:
    client, prefix = store.client, store.prefix
    left = [f"lease of {job.job_id} on {node.name}" for node in store.nodes() for job in store.held(node.name)]
    for name in ("waiting", "due", "expiry", "tell"):
        left += [f"{name}: {job.decode()}" for job in client.zrange(prefix + name, 0, -1)]
    left += [f"message in {queue}" for queue, count in store.queues().items() for _ in range(count)]
    for key in client.scan_iter(f"{prefix}*"):
        name = key.decode().removeprefix(prefix)
        if name.startswith(("job:", "celery-task-meta-")) and client.ttl(key) == -1:
            left.append(f"key {name} for ever")
        if name.startswith(("msg:", "cancel:", "chord-unlock", f"{keys.ROUTED}")):
            left.append(f"key {name}")
    return left


def _check_processes(folder: Path, findings: Findings) -> None:
    """Look for processes that carry the folder in their environment."""
    mark = f"JETQ_DIR={folder / 'up'}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0") and int(environ.parent.name) != os.getpid():
                findings.leaked.append(f"leaked: process {environ.parent.name}")
        except OSError:
            continue


if __name__ == "__main__":
    sys.exit(main())
