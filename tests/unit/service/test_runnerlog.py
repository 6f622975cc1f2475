"""What a runner writes comes to the job's log: without secrets, and never more than the node can take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from jetq.model.credentials import Secret
from jetq.service.runnerlog import LINES_S, LONGEST, RunnerLog


class Trial:
    """A log between two pipes."""

    def __init__(self) -> None:
        self._read_fd, write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self.log = RunnerLog(write_fd, "gate")
        self.log.secrets = (Secret("admin", "geheim"),)
        self._log_fd = write_fd
        self.fd = self.log.open()

    def write(self, data: bytes) -> None:
        os.write(self.fd, data)
        self.log.take()

    @property
    def lines(self) -> list[str]:
        """What has come to the log since."""
        try:
            return os.read(self._read_fd, 1 << 20).decode().splitlines()
        except BlockingIOError:
            return []

    def end(self) -> None:
        for fd in (self.fd, self._log_fd, self._read_fd):
            os.close(fd)


@pytest.fixture
def trial() -> Iterator[Trial]:
    made = Trial()
    yield made
    made.log.close()
    made.end()


def test_lines_come_whole_however_they_are_written(trial) -> None:
    trial.write(b"one\ntw")
    assert trial.lines == ["one"]
    trial.write(b"o\nthree")
    assert trial.lines == ["two"]

    trial.log.close()

    assert trial.lines == ["three"]


def test_secrets_are_taken_out_also_of_a_line_that_comes_in_two_pieces(trial) -> None:
    trial.write(b"cannot open rtsp://admin:geh")
    trial.write(b"eim@cam/1: the password geheim is wrong\n")

    assert trial.lines == ["cannot open rtsp://***@cam/1: the password *** is wrong"]


def test_what_is_no_text_does_no_harm(trial) -> None:
    trial.write(b"\xff\xfe\x00\n\n")

    assert len(trial.lines) == 2


@pytest.mark.parametrize("offset", range(0, 12, 2))
def test_a_line_without_an_end_is_cut_and_shows_no_half_of_a_secret(trial, offset) -> None:
    line = b"x" * (LONGEST - offset) + b"geheim" + b"y" * LONGEST
    for at in range(0, len(line), 4096):
        trial.write(line[at : at + 4096])
    trial.write(b"still the same line\nthe next\n")

    cut, after = trial.lines
    assert "(cut: " in cut
    assert "g" not in cut.partition("(cut")[0]
    assert after == "the next"


def test_a_line_without_an_end_takes_no_memory(trial) -> None:
    for _ in range(100):
        trial.write(b"z" * 60_000)

    assert len(trial.log._rest) <= LONGEST + 60_000


def test_lines_without_an_end_are_left_out_and_counted(trial, wait_until) -> None:
    for _ in range(LINES_S * 3 // 100):
        trial.write(b"flood\n" * 100)
    assert len(trial.lines) == LINES_S

    def counted() -> list[str]:
        trial.write(b"one more\n")
        return [line for line in trial.lines if "left out" in line]

    [said] = wait_until(counted, what="a second later")
    assert int(said.split()[1]) >= 2 * LINES_S


def test_a_log_that_takes_nothing_holds_nobody_up(trial) -> None:
    began_s = time.monotonic()
    for _ in range(400):
        trial.write(b"w" * 400 + b"\n")

    assert time.monotonic() - began_s < 1.0
    assert trial.log._left_out > 0


def test_the_end_of_a_runner_is_seen(trial) -> None:
    with open(os.devnull, "wb") as elsewhere:
        os.dup2(elsewhere.fileno(), trial.fd)

    assert trial.log.take() is False
