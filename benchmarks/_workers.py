"""Real workers for one benchmark: nodes of jetq, or plain Celery workers, on a server; all are gone at the end."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks._fleet import Machine
from benchmarks._plain import plain_app
from jetq import process
from jetq.config import Settings
from jetq.wire import open_store

#: The folder whose tasks/ both kinds of workers load.
APP_DIR = Path(__file__).resolve().parent / "app"
ROOT = APP_DIR.parent.parent
CLUSTER = "bench"
#: Longest wait for all workers to be ready, and for one to end (s).
READY_S, STOP_S = 120.0, 20.0


@dataclass(frozen=True, slots=True)
class Kind:
    """What runs the tasks."""

    routed: bool  # jetq's nodes; False: plain Celery
    results: bool = False
    prefetch_1: bool = False  # plain only: prefetch 1 and disable_prefetch


def settings(url: str) -> Settings:
    """Return the settings of the benchmark's cluster."""
    return Settings(broker_url=url, cluster=CLUSTER)


@contextmanager
def workers(
    kind: Kind,
    url: str,
    machines: Sequence[Machine],
    extra: Mapping[str, str] | None = None,
    *,
    wait_ready: bool = True,
) -> Iterator[list[int]]:
    """Start one worker per machine; yield their pids, once all are ready unless the caller watches them itself."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jetq-bench-log-")))
        children = []
        for m in machines:
            env = {**_clean(), **(extra or {}), "BENCH_SPEED": str(m.speed), "XDG_DATA_HOME": str(folder)}
            out = stack.enter_context((folder / f"{m.name}.log").open("wb"))
            argv, own = _routed(m, url) if kind.routed else _plain(m, url, kind)
            child = process.spawn(argv, env={**env, **own}, cwd=ROOT, stdout=out, stderr=out)
            stack.callback(_stop, child)
            children.append(child)
            stack.callback(child.signal, 15)  # all are asked first, then each is waited for
        names = {m.name for m in machines}
        ready = _routed_ready(url, names) if kind.routed else _plain_ready(url, kind, len(names))
        if wait_ready:
            wait(lambda: _alive(children, folder) and ready(), READY_S, "the workers to be ready")
        yield [child.pid for child in children]


def wait(condition: Callable[[], bool], within_s: float, what: str, *, every_s: float = 0.05) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it did not in time.
    """
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f"waited {within_s:.0f} s for {what}")
        time.sleep(every_s)


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU seconds that living processes and their descendants have used."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    below = [child for pid in pids for child in process.children(pid)]
    return total / os.sysconf("SC_CLK_TCK") + (cpu_s(below) if below else 0.0)


def _clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("JETQ_", "BENCH_"))}


def _routed(m: Machine, url: str) -> tuple[list[str], dict[str, str]]:
    flags = ["--name", m.name, "--slots", str(m.slots), "--board", m.board, "--app-dir", str(APP_DIR), "--grace", "2"]
    return process.self_argv("worker", *flags), settings(url).as_environ()


def _plain(m: Machine, url: str, kind: Kind) -> tuple[list[str], dict[str, str]]:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    argv = [sys.executable, "-m", "celery", "-A", "benchmarks._plain", "worker", "-n", m.name, "-c", str(m.slots)]
    env = {"BENCH_BROKER": url, "BENCH_RESULTS": str(int(kind.results)), "BENCH_PREFETCH_1": str(int(kind.prefetch_1))}
    return [*argv, *quiet], env


def _routed_ready(url: str, names: set[str]) -> Callable[[], bool]:
    store = open_store(settings(url), url)
    return lambda: {n.name for n in store.nodes() if n.state == "up"} >= names


def _plain_ready(url: str, kind: Kind, count: int) -> Callable[[], bool]:
    app = plain_app(url, results=kind.results)
    return lambda: len(app.control.ping(timeout=0.5)) >= count


def _alive(children: Sequence[process.Child], folder: Path) -> bool:
    for child in children:
        if child.poll() is not None:
            logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in folder.iterdir())
            raise RuntimeError(f"a worker ended with exit code {child.poll()}:\n{logs}")
    return True


def _stop(child: process.Child) -> None:
    if child.wait(STOP_S) is None:
        child.kill()
