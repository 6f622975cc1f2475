"""Three nodes of different size on this machine analyse real clips together; then everything stops again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIPS, OUT = ROOT / "clips", ROOT / "out" / "demo"
#: One node each, as if it were three boards.
SLOTS = (4, 2, 1)
#: Each clip is sent so often, in chunks of so many seconds.
REPEAT, CHUNK_S = 5, 4


def main() -> int:
    """Run the demo and return its exit code."""
    if not any(CLIPS.glob("*.mp4")):
        print(f"no clips in {CLIPS}: run `make demo` (or `make clips`)", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started_s = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="jetq-demo-"))
    where = ("--dir", str(home))
    up: subprocess.Popen[bytes] | None = None
    code = 1
    try:
        with held_back():
            up = start("up", "-d", "--nodes", str(len(SLOTS)), "--slots", ",".join(map(str, SLOTS)), *where)
        if up.wait() == 0:
            run("node", "list", *where)
            load = ("--repeat", str(REPEAT), "--chunk-s", str(CHUNK_S))
            code = run("video", str(CLIPS), *load, "--out", str(OUT), *where)
    except KeyboardInterrupt:
        print("\ninterrupted; stopping the nodes", file=sys.stderr)
        code = 130
    finally:
        stopped = stop(home, up)
    if code == 0 and stopped == 0:
        farewell(time.monotonic() - started_s)
    return code or stopped


def stop(home: Path, up: subprocess.Popen[bytes] | None) -> int:
    """Stop all nodes and remove their folder. A second Ctrl-C cannot leave half of it behind."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    if up is not None:
        up.wait()  # before that there is nothing to stop yet
    code = start("down", "--dir", str(home)).wait()
    if code == 0:
        shutil.rmtree(home, ignore_errors=True)
    return code


def run(*words: str) -> int:
    """Run one jetq command and return its exit code. Ctrl-C lets it cancel its work first."""
    try:
        with held_back():
            child = start(*words)
        return child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.wait()
        raise


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the end of the block: whom it starts is known by then, and can be stopped."""
    came: list[int] = []
    signums = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(signum, lambda number, _frame: came.append(number)) for signum in signums]
    try:
        yield
    finally:
        for signum, handler in zip(signums, before, strict=True):
            signal.signal(signum, handler)
    if came:
        raise KeyboardInterrupt


def start(*words: str) -> subprocess.Popen[bytes]:
    """Start a jetq command that Ctrl-C in this terminal does not reach by itself."""
    show(words)
    return subprocess.Popen(command(words), env=environment(), start_new_session=True)


def show(words: tuple[str, ...]) -> None:
    """Print the command as one would type it."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}$ jetq {' '.join(words)}{plain}", flush=True)


def command(words: tuple[str, ...]) -> list[str]:
    """Return the command line."""
    return [sys.executable, "-m", "jetq", *words]


def environment() -> dict[str, str]:
    """Return our environment without the caller's own cluster in it."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("JETQ_")}
    return {**ours, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [ours.get("PYTHONPATH")])])}


def farewell(took_s: float) -> None:
    """Say where the picture is and what to try next."""
    jetq = Path(sys.executable).with_name("jetq")
    name = os.path.relpath(jetq) if jetq.exists() else "python -m jetq"
    print(f"\nAll of it took {took_s:.0f} s. Look at the contact sheet: {OUT / 'contact-sheet.png'}")
    print("\nTry next:")
    for words, why in (
        ("up -d --nodes 3", "a cluster that stays (stop it with `jetq down`)"),
        ("video YOUR.mp4 --annotate --out report", "your own film, with the boxes drawn in"),
        ("submit demo.nap 2 --wait", "any task, on the node with the most room"),
    ):
        print(f"  {name} {words:42} # {why}")


if __name__ == "__main__":
    sys.exit(main())
