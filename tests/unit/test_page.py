"""The shared page: written and read by real processes, torn reads included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetq import page, process

JOB = ("3c1f0a52-0b51-4a52-9c57-1f0f0c6f8d10", "0123456789abcdef", "4711.0123456789abcdef", "0-0123456789abcdef")
#: Opens the page of its parent by path, says what it runs, and goes on until its input ends.
WRITER = """
import os, sys
from jetq import page, process
slot = page.open_path(sys.argv[1]).slot(1, pid=os.getpid(), born=process.born(os.getpid()))
slot.hold("job", "pub", "claimer", "token")
print(flush=True)
sys.stdin.read()
"""
#: Writes two entries in turn, as fast as it can; all texts of one entry are the same letter.
HAMMER = """
import sys
from jetq import page
slot = page.open_path(sys.argv[1]).slot(0, pid=1, born=1)
print(flush=True)
while True:
    for letter in "ab":
        slot.hold(letter * 100, letter * 90, letter * 80, letter * 70)
"""


@pytest.fixture
def shared():
    made, fd = page.create(4)
    yield made, f"/proc/{os.getpid()}/fd/{fd}"
    os.close(fd)


@pytest.fixture
def start(shared):
    started: list[subprocess.Popen[bytes]] = []

    def start_with(code: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": str(Path(page.__file__).parents[1])}
        argv = [sys.executable, "-c", code, shared[1]]
        started.append(subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert started[-1].stdout.readline()
        return started[-1]

    yield start_with
    for child in started:
        child.kill()
        child.communicate()


def test_an_entry_is_asked_for_then_held_then_gone(shared):
    here, _ = shared
    slot = here.slot(2, pid=7, born=11)

    slot.hold(*JOB[:3])
    asked = list(here.entries())
    slot.hold(*JOB)
    held = list(here.entries())
    slot.clear()

    assert asked == [page.Entry(*JOB[:3], "", 7, 11)]
    assert held == [page.Entry(*JOB, 7, 11)]
    assert list(here.entries()) == []


def test_an_entry_counts_while_its_process_lives(shared, start, wait_until):
    here, _ = shared
    child = start(WRITER)
    assert [(e.job_id, e.pid) for e in here.living(process.born)] == [("job", child.pid)]

    child.kill()

    wait_until(lambda: here.living(process.born) == [], what="the entry no longer counts")
    assert [entry.job_id for entry in here.entries()] == ["job"]


def test_a_pid_that_another_process_got_does_not_count(shared):
    here, _ = shared
    here.slot(0, pid=os.getpid(), born=process.born(os.getpid()) - 1).hold(*JOB)

    assert here.living(process.born) == []


def test_a_new_writer_takes_over_the_slot_of_a_dead_one(shared):
    here, _ = shared
    first = here.slot(0, pid=1, born=1)
    for _ in range(5):
        first.hold(*JOB)

    here.slot(0, pid=2, born=2).hold("next", "", "")

    assert [(entry.job_id, entry.pid) for entry in here.entries()] == [("next", 2)]


def test_a_reader_never_sees_half_a_write(shared, start):
    here, _ = shared
    start(HAMMER)

    seen = {entry for _ in range(20_000) for entry in here.entries()}

    assert {entry.job_id[0] for entry in seen} == {"a", "b"}
    assert all(
        entry == page.Entry(*(letter * n for n in (100, 90, 80, 70)), 1, 1)
        for entry in seen
        for letter in entry.job_id[0]
    )


def test_a_writer_killed_at_a_write_leaves_what_was_there_before(shared):
    here, path = shared
    slot = here.slot(0, pid=7, born=11)
    slot.hold("before", "", "")
    slot.hold("torn", "", "")
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"\xff", 64 + 40)  # within the half that was written last
    os.close(fd)

    assert [entry.job_id for entry in here.entries()] == ["before"]


def test_times_are_shared(shared):
    here, path = shared
    there = page.open_path(path)

    here.good_until_s, there.tick_s, there.fenced_s = 12.5, 3.25, 9.0

    assert (there.good_until_s, here.tick_s, here.fenced_s) == (12.5, 3.25, 9.0)
    assert there.slots == 4


def test_an_id_that_does_not_fit_and_a_slot_that_is_not_there_are_refused(shared):
    here, _ = shared

    with pytest.raises(ValueError, match="too long"):
        here.slot(0, pid=1, born=1).hold("x" * 500, "", "")
    with pytest.raises(IndexError, match="4 slots"):
        here.slot(4, pid=1, born=1)
