"""Tasks of a user, for nodes of fault tests: they tell what they do, and leave the pids of their trees behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from celery import shared_task
from celery.signals import before_task_publish

from jetq.engine.current import run


def tree(note, seconds):
    """A child in a session of its own, as a daemon would be."""
    child = subprocess.Popen(["setsid", "sleep", str(seconds)])
    with Path(note).open("a") as out:
        out.write(f"{os.getpid()} {child.pid}\n")
    return child


@shared_task(name="fault.hold")
def hold(note, seconds):
    """Run for so long, with a child."""
    tree(note, seconds).wait()
    return "held"


@shared_task(name="fault.hold_first")
def hold_first(note, seconds):
    """The same, but a second run ends at once."""
    second = Path(note).exists()
    tree(note, 0 if second else seconds).wait()
    return "second" if second else "first"


def family(note, seconds):
    """A child that has a child of its own, in a session of its own."""
    child = subprocess.Popen(["sh", "-c", f"setsid sleep {seconds} & echo {os.getpid()} $$ $! >> {note}; wait"])
    child.wait()


@shared_task(name="fault.family")
def found_family(note, seconds):
    """Run for so long, with a child and a grandchild; a second run ends at once."""
    family(note, 0 if Path(note).exists() else seconds)


@shared_task(name="fault.heir")
def inherit(note, seconds):
    """The same, but a second run gives the pids of the first run's tree that still live."""
    if not Path(note).exists():
        family(note, seconds)
    states = {pid: Path(f"/proc/{pid}/stat") for pid in Path(note).read_text().split()}
    return [
        pid for pid, stat in states.items() if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    ]


@shared_task(name="fault.late_family", time_limit=3)
def found_late_family(note, seconds):
    """The same, under a hard time limit."""
    family(note, seconds)


@shared_task(name="fault.work")
def work(story, key, seconds):
    """Tell its start and its end."""
    tell(story, "start", key)
    time.sleep(seconds)
    tell(story, "end", key)
    return key


@shared_task(name="fault.wait")
def wait(story, key, path):
    """Tell its start, and its end once a file is there."""
    tell(story, "start", key)
    while not Path(path).exists():
        time.sleep(0.02)
    tell(story, "end", key)


@shared_task(name="fault.pace")
def pace(story, key, seconds):
    """Take so long, or longer on a slow node, and tell the end."""
    time.sleep(seconds * float(os.environ.get("FAULT_SLOWER", "1")))
    tell(story, "end", key)


@shared_task(name="fault.nap")
def nap(seconds):
    """Take so long."""
    time.sleep(seconds)


@shared_task(name="fault.serve")
def serve(story, seconds):
    """Work, or fail at once while the node's file says so; tell which, and where."""
    broken = os.environ.get("FAULT_BROKEN")
    if broken and Path(broken).exists():
        tell(story, "failed", os.environ["JETQ_NODE"])
        raise RuntimeError("no camera")
    time.sleep(seconds)
    tell(story, "served", os.environ["JETQ_NODE"])


def tell(story, what, key):
    """Append one line, whole."""
    with Path(story).open("a") as out:
        out.write(f"{what} {key} {os.environ['JETQ_TOKEN']}\n")


@shared_task(name="fault.quick")
def quick(word):
    """Answer."""
    return word


@shared_task(name="fault.poison")
def poison(story, key, how):
    """End one's own process in some way."""
    tell(story, "start", key)
    if how == "exit":
        os._exit(3)
    if how == "crash":
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.SIGKILL)


@shared_task(name="fault.die_once")
def die_once(story, key):
    """Kill one's own process at the first run."""
    tell(story, "start", key)
    if Path(story).read_text().count(f"start {key} ") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tell(story, "end", key)
    return key


@shared_task(name="fault.retry", bind=True, max_retries=1)
def retry(self, story, key, wait_s):
    """Hang at the first run, and ask once to run again after a while."""
    tell(story, "start", key)
    if Path(story).read_text().count(f"start {key} ") == 1:
        time.sleep(600)
    if self.request.retries == 0:
        raise self.retry(countdown=wait_s)
    tell(story, "end", key)
    return os.environ["JETQ_NODE"]


@shared_task(name="fault.retry_at", bind=True)
def retry_at(self, story, key, path):
    """Ask to run again once a file is there."""
    tell(story, "start", key)
    while not Path(path).exists():
        time.sleep(0.02)
    if self.request.retries == 0:
        tell(story, "ask", key)
        raise self.retry(countdown=0)
    tell(story, "end", key)


@shared_task(name="fault.step")
def step(words, story, key):
    """A link of a chain: pass on all keys so far."""
    tell(story, "start", key)
    tell(story, "end", key)
    return [*words, key]


@shared_task(name="fault.boom")
def boom(story, key):
    """Fail."""
    tell(story, "start", key)
    raise RuntimeError(key)


@shared_task(name="fault.mourn")
def mourn(job_id, story, key):
    """An errback in a message of its own."""
    tell(story, "start", key)
    tell(story, "end", key)


@before_task_publish.connect
def stop_at_gate(sender=None, **_rest):
    """Publish nothing from a body while the gate is there: whoever comes to it says so, and waits for ever."""
    gate = os.environ.get("FAULT_GATE")
    if gate and Path(gate).exists() and "JETQ_TOKEN" in os.environ:
        with Path(gate).open("a") as out:
            out.write(f"{os.environ['JETQ_JOB_ID']} {sender}\n")
        while True:
            signal.pause()


@shared_task(name="fault.watch")
def watch(story, key, deaf_s=0.0):
    """Run in a lane of threads until asked to stop, and then for so long."""
    note_thread(story, "start", key)
    run().stop.wait()
    note_thread(story, "asked", key)
    time.sleep(deaf_s)
    note_thread(story, "end", key)


@shared_task(name="fault.leave")
def leave(story, key):
    """Leave as if the process were its own."""
    note_thread(story, "start", key)
    raise SystemExit(3)


def note_thread(story, what, key):
    """Append one line, with the process that runs the thread."""
    with Path(story).open("a") as out:
        out.write(f"{what} {key} {os.getpid()}\n")
