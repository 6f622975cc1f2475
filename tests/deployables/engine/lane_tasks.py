"""Tasks that know nothing of jetq, each leaving a mark in the broker when its body runs."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from celery import Celery, Task, current_task, shared_task

import jetq

R = redis.Redis.from_url(os.environ["JETQ_BROKER_URL"])


def ran() -> int:
    """Count one run of this job's body; returns how many there were."""
    job_id = current_task.request.id or "direct call"
    R.rpush("order", job_id)
    return int(R.incr(f"ran:{job_id}"))


class HangsOnce(Task):
    """A base class whose hook after a success hangs the first time."""

    abstract = True

    def on_success(self, retval, task_id, args, kwargs):
        if R.incr("hangs") == 1:
            time.sleep(60)


class Plain(Task):
    """A user's base class with its own ``__call__``."""

    abstract = True

    def __call__(self, *args, **kwargs):
        R.incr("called")
        return self.run(*args, **kwargs)


class Old(Task):
    """A class task, as in Celery 3."""

    name = "yard.old"

    def run(self, x):
        ran()
        return -x


@shared_task(name="yard.count")
def count(x):
    ran()
    return x + 1


@shared_task(name="yard.direct")
def direct(x):
    ran()
    return count(x) + count.run(x)


@shared_task(name="yard.sum")
def total(xs):
    ran()
    return sum(xs)


@shared_task(name="yard.based", base=Plain, bind=True)
def based(self, x):
    ran()
    return x * 2


@shared_task(name="yard.sleep", bind=True)
def sleep(self, seconds, tag=""):
    R.set("pid:" + self.request.id, os.getpid())
    ran()
    time.sleep(seconds)
    return tag


@shared_task(name="yard.retry", bind=True, max_retries=3)
def retry(self, times, wait=0):
    ran()
    if self.request.retries < times:
        raise self.retry(countdown=wait)
    return self.request.retries


@shared_task(name="yard.auto", bind=True, autoretry_for=(ValueError,), default_retry_delay=0, max_retries=4)
def auto(self, times):
    ran()
    if self.request.retries < times:
        raise ValueError("again")
    return "auto ok"


@shared_task(name="yard.boom")
def boom():
    ran()
    raise RuntimeError("boom")


@shared_task(name="yard.die", bind=True)
def die(self, times):
    if ran() <= times:
        os.kill(os.getpid(), 9)
    return "lived"


@shared_task(name="yard.err")
def err(request, exc, tb):
    R.incr("errback")


@shared_task(name="yard.replace", bind=True)
def replace(self, x):
    ran()
    raise self.replace(count.s(x))


@shared_task(name="yard.replace_chain", bind=True)
def replace_chain(self, x):
    ran()
    raise self.replace(count.s(x) | count.s())


@shared_task(name="yard.stubborn")
def stubborn(seconds):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ran()
    time.sleep(seconds)
    return "survived"


@shared_task(name="yard.frozen")
def frozen():
    ran()
    os.kill(os.getpid(), signal.SIGSTOP)


@shared_task(name="yard.raises")
def raises(kind, text):
    ran()
    raise getattr(builtins, kind)(text)


@shared_task(name="yard.hard", bind=True, time_limit=1)
def hard(self):
    ran()
    time.sleep(60)


@shared_task(name="yard.hangs_after", base=HangsOnce, time_limit=2)
def hangs_after():
    ran()
    return "done"


@shared_task(name="yard.soft", bind=True, soft_time_limit=1)
def soft(self):
    ran()
    time.sleep(60)


@shared_task(name="yard.much")
def much(size):
    ran()
    return "x" * size


@shared_task(name="yard.much_more", jetq={"max_result_bytes": 4 << 20})
def much_more(size):
    ran()
    return "x" * size


@shared_task(name="yard.token")
def token():
    ran()
    return os.environ["JETQ_JOB_ID"], os.environ["JETQ_TOKEN"], jetq.token()


@shared_task(name="yard.tokens")
def tokens():
    """Give the token as a thread of the body and a process that it starts see it."""
    with ThreadPoolExecutor(1) as pool:
        seen = [jetq.token(), pool.submit(jetq.token).result()]
    code = "import jetq; print(jetq.token())"
    return [*seen, subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()]


@shared_task(name="yard.labelled", jetq={"labels": ["node=a"], "strategy": "least_connections"})
def labelled():
    return ran()


def register(app: Celery) -> None:
    """Add the class task, which ``shared_task`` cannot."""
    app.register_task(Old())
