"""Gang launch: from the submit of a gang to the first line of a rank, beside the launcher alone, on an idle cluster.

Four boards on one switch (network namespaces, as root), a node with two slots on each, one rank a board that writes one
line. In turn, round by round:

    bare      mpirun with a hostfile and a launch agent, or torchrun started on all four at once
    gang      `JetQ.gang(...)`, until the line is in the ledger, for whoever follows
    command   `jetq gang ...`, from the start of that command to the line on its screen

``--slurm`` also launches it by Slurm on this machine, where that is installed: controller and nodes without networks
between them, one job after the other, so these figures stand beside the others and are no part of the budget.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks._boards import BOARDS, COMMAND, INTERFACE, LINE_S, Bare, first_line, nodes
from benchmarks._host import Lan, can_build
from benchmarks._report import Report, Spread, options
from benchmarks._server import fresh_store, server
from benchmarks._slurm import missing, slurm
from benchmarks._workers import settings, wait
from jetq import process
from jetq.client import JetQ
from jetq.store.redis import RedisStore

LAUNCHERS = ("mpirun", "torchrun")
#: What a gang's launch may take beyond the launcher alone (s).
LIMIT_S = 0.5
#: Time between two looks for a line (s).
LOOK_S = 0.01
#: From what to what a launch is cut, by the server's clock.
STEPS = ("submit - reserved", "- all members run", "- all are ready", "- first line", "- seen")


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a gang (s)."""

    took_s: float
    steps_s: tuple[float, ...]  # by STEPS


class Gangs:
    """Launches gangs on nodes that are up."""

    def __init__(self, url: str, store: RedisStore) -> None:
        self._settings = settings(url)
        self._client = JetQ(url, cluster=self._settings.cluster)
        self._store = store

    def launch(self, launcher: str) -> Launch:
        """Launch one by the client, on an idle cluster, and wait for its end."""
        begin_s, began_s = time.monotonic(), time.time()
        job = self._client.gang(COMMAND, nodes=BOARDS, launcher=launcher, as_root=launcher == "mpirun")
        line_s: list[float] = []

        def is_said() -> bool:
            line_s[:] = [line.at_s for line in self._store.gang_lines(job.id)[1] if line.rank is not None]
            return bool(line_s)

        wait(is_said, LINE_S, f"a line of {job.id}", every_s=LOOK_S)
        took_s, seen_s = time.monotonic() - begin_s, time.time()
        row = job.row()
        reserved_s = next(event["at"] for event in row.history if event["what"] == "reserved")
        members = [self._store.job(f"{job.id}.1.{index}") for index in range(BOARDS)]
        claimed_s = max(member.started_at or 0.0 for member in members if member is not None)
        at_s = [began_s, reserved_s, claimed_s, row.started_at or 0.0, line_s[0], seen_s]
        steps_s = tuple(later - sooner for sooner, later in itertools.pairwise(at_s))
        self._end(job.wait(LINE_S).state)
        return Launch(took_s, steps_s)

    def command(self, launcher: str) -> float:
        """Launch one by the command line; returns when the line is on its screen (s)."""
        flags = ["--nodes", str(BOARDS), "--launcher", launcher, *(["--as-root"] if launcher == "mpirun" else [])]
        took_s = first_line([process.self_argv("gang", *flags, "--", *COMMAND)], self._settings.as_environ())
        self._end("SUCCEEDED")
        return took_s

    def _end(self, state: str) -> None:
        if state != "SUCCEEDED":
            raise RuntimeError(f"a gang ended as {state}")
        wait(lambda: not any(row.used for row in self._store.nodes()), LINE_S, "the nodes to be free")


def beyond(bare: Sequence[float], gang: Sequence[float]) -> Spread:
    """Return the difference of the medians, with the quartiles of the rounds' own differences as its range."""
    rounds = Spread.quartiles(g - b for b, g in zip(bare, gang, strict=True))
    return Spread(median(gang) - median(bare), rounds.low, rounds.high, rounds.repeats)


def measure(report: Report, bare: Bare, gangs: Gangs, repeats: int) -> None:
    """Launch everything in turn, after one launch of each that does not count, and report."""
    alone: dict[str, Callable[[], float]] = {"mpirun": bare.mpirun, "torchrun": bare.torchrun}
    rows, split = [], []
    for launcher in LAUNCHERS:
        alone[launcher]()
        first = gangs.launch(launcher)
        bare_s, launches, command_s = [], [], []
        for _ in range(repeats):
            bare_s.append(alone[launcher]())
            launches.append(gangs.launch(launcher))
            command_s.append(gangs.command(launcher))
        gang_s = [launch.took_s for launch in launches]
        more = beyond(bare_s, gang_s)
        rows.append([launcher, *map(Spread.of, (bare_s, gang_s)), more, Spread.of(command_s), first.took_s])
        split.append([launcher, *map(Spread.of, zip(*(launch.steps_s for launch in launches), strict=True))])
        report.budget(f"{launcher}: gang - bare, s", more, LIMIT_S)
    report.table(
        "to the first line of a rank (s)", ("launcher", "bare", "gang", "gang - bare", "command", "first gang"), rows
    )
    report.table("steps of a gang's launch (s)", ("launcher", *STEPS), split)


def measure_slurm(report: Report, repeats: int) -> None:
    """Launch the same by Slurm, where it is installed, and report."""
    if absent := missing():
        report.say(f"Slurm: left out, since {', '.join(absent)} are not installed (Debian: slurm-wlm, munge)")
        return
    with tempfile.TemporaryDirectory(prefix="jetq-bench-") as name, slurm(Path(name)) as peer:
        rows = [
            (word, Spread.of([launch() for _ in range(repeats)]))
            for word, launch in (("srun", peer.srun), ("sbatch", peer.sbatch))
        ]
    report.table("Slurm, to the first line of a rank (s)", ("launcher", "time"), rows)


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slurm", action="store_true", help="launch it by Slurm, too, where that is installed")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print. Returns the exit code."""
    asked = options(__doc__, argv, repeats=10, add=_flags)
    report = Report("gang_launch", f"seconds to the first line of a gang on {BOARDS} boards, median with range")
    if can_build():
        lan = Lan([INTERFACE] * BOARDS, joined=True)
        with tempfile.TemporaryDirectory(prefix="jetq-bench-") as name:
            folder = Path(name)
            try:
                lan.build()
                with server(lan.ours) as url:
                    store = fresh_store(url)
                    with nodes(lan, url, store, folder):
                        measure(report, Bare(lan, folder), Gangs(url, store), asked.repeats)
            finally:
                lan.remove()
    else:
        report.say("left out, since network namespaces take root and iproute2")
    if asked.slurm and can_build():
        measure_slurm(report, asked.repeats)
    report.close(asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
