"""An application that sends a training job to the cluster and follows it: where it is, what it says, how it ended.

    jetq up -d --nodes 4
    python examples/producer/train.py --nodes 2:4 --epochs 3

It needs neither torch nor a board: the folder `examples/ddp` travels to the nodes with the job.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from jetq import JetQ, Job
from jetq.errors import FilesAway, JetqError
from jetq.model.job import JobRow

WORKDIR = Path(__file__).resolve().parent.parent / "ddp"


def main() -> int:
    """Send, follow and judge. Returns the exit code of the training."""
    asked = arguments()
    try:
        job = JetQ(asked.broker).gang(
            ["python", "train.py", "--epochs", str(asked.epochs)],
            nodes=asked.nodes,
            ranks=asked.ranks,
            launcher=asked.launcher,
            as_root=asked.as_root,
            workdir=WORKDIR,
            retries=1,  # the script resumes from its checkpoint
            name="shapes",
        )
        print(f"job {job.id}", flush=True)
        return follow(job)
    except JetqError as exc:  # its message says what to do
        print(exc, file=sys.stderr)
        return exc.exit_code


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train examples/ddp on the nodes of a cluster, and follow it.")
    parser.add_argument("--nodes", default="1:4", help="how many, or MIN:MAX (1:4)")
    parser.add_argument("--ranks", type=int, default=1, help="on each node (1)")
    parser.add_argument("--launcher", choices=("torchrun", "mpirun"), default="torchrun")
    parser.add_argument("--as-root", action="store_true", help="let mpirun run as root")
    parser.add_argument("--epochs", type=int, default=3, help="(3)")
    parser.add_argument("--broker", help="URL (JETQ_BROKER_URL, else the `jetq up` of this machine)")
    return parser.parse_args()


def follow(job: Job) -> int:
    """Print what happens until it has ended. Ctrl-C cancels the job."""
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(job, ended), daemon=True)
    watcher.start()
    try:
        for line in job.logs(follow=True):  # of all ranks, as it happens: "[RANK] text"
            print(line, flush=True)
    except FilesAway as exc:
        print(exc, file=sys.stderr)
    except KeyboardInterrupt:
        job.cancel("its producer was interrupted")
    row = job.wait()
    ended.set()
    watcher.join(5)
    return judge(row)


def watch(job: Job, ended: threading.Event) -> None:
    """Say each change of state, and how far it is. A broker that is away for a moment is no news."""
    said = ""
    while not ended.wait(0.2):
        try:
            row = job.row()
        except JetqError:
            continue
        if row.ended:
            return
        now = describe(row)
        if now != said:
            print(f"-- {now}", flush=True)
        said = now


def describe(row: JobRow) -> str:
    """Say in a line where a job is: waiting and why, or running and how far."""
    if row.progress:
        metrics = (f", {name} {value}" for name, value in row.progress["metrics"].items())
        return f"{row.state}, step {row.progress['step']} of {row.progress['total']}{''.join(metrics)}"
    where = f" on {', '.join(row.nodes)}" if row.nodes else ""
    return f"{row.state}{where}" + (f": {row.reason}" if row.reason else "")


def judge(row: JobRow) -> int:
    """Print how it ended. Returns the exit code."""
    print(f"{row.state} on {', '.join(row.nodes) or 'no node'}, exit code {row.exit_code}", flush=True)
    if row.state == "SUCCEEDED":
        return 0
    for line in (row.error or row.reason or "no reason was kept", *row.tail):
        print(line, file=sys.stderr)
    return row.exit_code or 1


if __name__ == "__main__":
    sys.exit(main())
