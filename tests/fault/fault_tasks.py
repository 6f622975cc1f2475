"""Tasks of a user, for nodes of fault tests: they tell what they do, and leave the pids of their trees behind."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from celery import shared_task


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


@shared_task(name="fault.work")
def work(story, key, seconds):
    """Tell its start and its end."""
    tell(story, "start", key)
    time.sleep(seconds)
    tell(story, "end", key)
    return key


def tell(story, what, key):
    """Append one line, whole."""
    with Path(story).open("a") as out:
        out.write(f"{what} {key} {os.environ['JETQ_TOKEN']}\n")


@shared_task(name="fault.quick")
def quick(word):
    """Answer."""
    return word
