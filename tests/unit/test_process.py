"""Processes: the tie to the parent, groups, adoption, and the sweep by marker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jetq import ids, process
from jetq.errors import JetqError

SLEEP = ["sleep", "600"]
#: A parent that spawns a tied sleeper through jetq, says its pid, and waits to be killed.
PARENT = """
import sys
from jetq import process
child = process.spawn(["sleep", "600"])
print(child.pid, flush=True)
child.wait()
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_child_gets_its_arguments_and_environment_and_gives_its_exit_code():
    child = process.spawn(["sh", "-c", 'echo "$1 $WORD"; exit 3', "sh", "a b"], env={"WORD": "x"}, stdout=process.PIPE)

    assert child.stdout is not None
    assert child.stdout.read() == b"a b x\n"
    assert child.wait(10) == 3
    child.stdout.close()


def test_waiting_ends_at_the_deadline_while_the_child_runs():
    child = process.spawn(SLEEP)

    assert child.wait(0.05) is None

    child.kill()
    assert child.poll() == -signal.SIGKILL


def test_a_missing_program_is_one_clear_line():
    with pytest.raises(JetqError, match="no such program"):
        process.spawn(["no-such-program-here"])


def test_a_child_dies_with_a_parent_that_is_killed(wait_until):
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=with_jetq())
    pid = int(parent.stdout.readline())

    parent.kill()
    parent.wait()
    parent.stdout.close()

    wait_until(lambda: not alive(pid), what="the child's end")


def test_the_shim_gives_up_when_its_parent_is_already_another():
    shim = Path(process.__file__).parent / "_exec_shim.py"

    done = subprocess.run(
        [sys.executable, "-I", "-S", shim, "1", "9", "/bin/echo", "ran"], capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (1, b"")


def test_a_child_starts_with_no_blocked_and_no_ignored_signals():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        child = process.spawn(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"], stdout=process.PIPE)
        assert child.stdout is not None
        lines = child.stdout.read().decode().split()
        child.wait(10)
        child.stdout.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    reserved = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's own: posix_spawn (make) ignores them for good
    assert lines[::2] == ["SigBlk:", "SigIgn:"]
    assert [int(mask, 16) & ~reserved for mask in lines[1::2]] == [0, 0]


def test_killing_a_child_kills_its_group(wait_until):
    child = process.spawn(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=process.PIPE)
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())

    child.kill()
    child.stdout.close()

    wait_until(lambda: not alive(grandchild), what="the grandchild's end")


def test_killing_a_tree_reaches_descendants_in_other_sessions(wait_until):
    child = process.spawn(["sh", "-c", "setsid sh -c 'sleep 600 & echo $!; wait' & wait"], stdout=process.PIPE)
    assert child.stdout is not None
    deepest = int(child.stdout.readline())

    killed = process.kill_tree(child.pid)
    child.wait(10)
    child.stdout.close()

    assert {child.pid, deepest} <= set(killed)
    wait_until(lambda: not alive(deepest), what="the deepest one's end")


def test_a_sweep_kills_all_below_its_marker_and_nothing_else():
    key = ids.random64()
    below = [process.spawn(SLEEP, env=marked(mark)) for mark in (key, f"{key}.run1", f"{key}.run1.tasks0")]
    spared = process.spawn(SLEEP, env=marked(f"{key}.run2.tasks0"))
    other = process.spawn(SLEEP, env=marked(f"{key}x"))

    killed = process.sweep(key, spare=f"{key}.run2")

    assert killed == sorted(child.pid for child in below)
    assert [child.poll() for child in (spared, other)] == [None, None]
    for child in (*below, spared, other):
        child.kill()


def test_the_marker_reaches_grandchildren_that_left_the_session():
    key = ids.random64()
    child = process.spawn(["setsid", "-f", *SLEEP], env=marked(key), own_session=True)
    child.wait(10)

    assert len(process.sweep(key)) == 1


def test_a_subreaper_adopts_kills_and_reaps_orphans_but_not_its_own(wait_until):
    code = """
import sys
from jetq import process
process.become_subreaper()
own = process.spawn(["sleep", "600"])
lost = process.spawn(["sh", "-c", "setsid -f sleep 601"])
lost.wait()
while not (found := process.reap_adopted([own.pid])):
    pass
while process.adopted([own.pid]):
    process.reap_adopted([own.pid])
print(len(found), own.poll(), flush=True)
own.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=with_jetq(), timeout=20, check=True)

    assert done.stdout.split() == [b"1", b"None"]


def test_a_tied_child_dies_with_the_thread_that_started_it_and_an_untied_one_does_not():
    started: list[process.Child] = []

    def start(tied: bool) -> None:
        child = process.spawn(["sh", "-c", "echo tied; exec sleep 600"], stdout=process.PIPE, tied=tied)
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        started.append(child)

    for tied in (True, False):
        thread = threading.Thread(target=start, args=(tied,))
        thread.start()
        thread.join()
    tied_child, free_child = started

    assert tied_child.wait(10) == -signal.SIGKILL
    assert free_child.poll() is None
    free_child.kill()


def test_our_own_command_line_needs_no_jetq_in_the_current_folder(tmp_path):
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong click')")

    done = subprocess.run([*process.self_argv("--version")], cwd=tmp_path, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr


def marked(mark: str) -> dict[str, str]:
    return {**os.environ, process.MARK: mark}


def with_jetq() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(process.__file__).resolve().parent.parent)}


def test_what_carries_all_the_variables_is_killed_and_nothing_else():
    job = ids.random64()
    mine = process.spawn(SLEEP, env={**os.environ, "JOB": job, "LANE": "a"})
    other = process.spawn(SLEEP, env={**os.environ, "JOB": job, "LANE": "b"})

    assert process.sweep_carriers(5.0, JOB=job, LANE="a") == [mine.pid]

    assert (mine.wait(10), alive(other.pid)) == (-signal.SIGKILL, True)
    other.kill()
