"""A pipe is read whatever becomes of its lines, and what is lost is counted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from jetq.errors import JetqError
from jetq.launch.output import Line, Output
from jetq.service import spout
from jetq.service.spout import Spout

LINES = 200_000  # some 13 MB: more than may wait
WRITER = f"for n in range({LINES}): print(f'line {{n}} ' + 'x' * 50)"


class Pipe:
    """A pipe with a spout at one end."""

    def __init__(self, take: Callable[[Line], None]) -> None:
        read_fd, self.fd = os.pipe()
        self.spout = Spout(read_fd, Output.of_daemon(), take)

    def write(self, code: str, within_s: float) -> None:
        subprocess.run([sys.executable, "-c", code], stdout=self.fd, timeout=within_s, check=True)

    def close(self, within_s: float = 30.0) -> bool:
        os.close(self.fd)
        return self.spout.close(within_s)


def test_all_lines_arrive_in_order():
    taken: list[str] = []
    pipe = Pipe(lambda line: taken.append(line.text))
    pipe.write(WRITER, within_s=60)

    assert pipe.close()
    assert [text.split()[1] for text in taken] == [str(number) for number in range(LINES)]
    assert pipe.spout.dropped == 0
    assert pipe.spout.tail(None)[-1] == taken[-1]


def test_a_taker_that_stands_still_holds_up_no_writer():
    taken: list[str] = []
    goes_on = threading.Event()

    def take(line: Line) -> None:
        goes_on.wait(60)
        taken.append(line.text)

    pipe = Pipe(take)
    pipe.write(WRITER, within_s=30)
    goes_on.set()

    assert pipe.close()
    assert pipe.spout.dropped > 0
    notes = [text for text in taken if "lines were dropped" in text]
    assert len(taken) - len(notes) + pipe.spout.dropped == LINES
    assert sum(int(word) for note in notes for word in note.split() if word.isdigit()) == pipe.spout.dropped


def test_a_taker_that_goes_on_gets_what_comes_then_and_is_told_of_the_rest(monkeypatch, wait_until):
    monkeypatch.setattr(spout, "QUEUE_BYTES", 4096)
    monkeypatch.setattr(spout, "ROOM_S", 0.05)
    taken: list[str] = []
    goes_on = threading.Event()

    def take(line: Line) -> None:
        goes_on.wait(60)
        taken.append(line.text)

    pipe = Pipe(take)
    pipe.write("for n in range(50000): print(n)", within_s=30)
    wait_until(lambda: pipe.spout.dropped, what="lines that found no room")
    wait_until(lambda: pipe.spout.tail(None)[-1:] == ["49999"], what="the last line read")
    goes_on.set()
    wait_until(lambda: len(taken) + pipe.spout.dropped == 50000, what="all others taken")
    os.write(pipe.fd, b"after\n")

    assert pipe.close()
    assert taken[-2:] == [f"{pipe.spout.dropped} lines were dropped here: nobody took them in time", "after"]


@pytest.mark.parametrize("error", [OSError("no space left"), JetqError("no")])
def test_a_line_whose_taker_fails_is_lost_and_the_next_is_not(error: Exception):
    taken: list[str] = []

    def take(line: Line) -> None:
        if line.text == "1":
            raise error
        taken.append(line.text)

    pipe = Pipe(take)
    pipe.write("for n in range(3): print(n)", within_s=30)

    assert pipe.close()
    assert (taken, pipe.spout.dropped) == (["0", "2"], 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_taker_with_a_bug_holds_up_no_writer():
    def take(line: Line) -> None:
        raise ValueError("a bug")

    pipe = Pipe(take)
    pipe.write(WRITER, within_s=30)

    assert pipe.close()
    assert pipe.spout.tail(None)[-1].startswith(f"line {LINES - 1} ")


def test_a_pipe_that_others_hold_open_is_read_as_far_as_it_goes():
    taken: list[str] = []
    pipe = Pipe(lambda line: taken.append(line.text))
    os.write(pipe.fd, b"one\ntwo")

    assert pipe.spout.close(10)
    assert taken == ["one", "two"]
    assert pipe.spout.close(10)
    os.close(pipe.fd)


def test_one_who_writes_for_ever_is_left(wait_until):
    pipe = Pipe(lambda line: None)
    endless = subprocess.Popen(["yes"], stdout=pipe.fd)

    wait_until(lambda: pipe.spout.tail(None), what="its first lines")

    pipe.spout.close(0.5)

    assert endless.wait(10) != 0  # its pipe has no reader any more
    os.close(pipe.fd)


def test_nothing_of_it_stays_open(wait_until):
    before = set(os.listdir("/proc/self/fd"))
    pipe = Pipe(lambda line: None)
    pipe.write("print(1)", within_s=30)

    assert pipe.close()
    assert set(os.listdir("/proc/self/fd")) == before
