"""A log keeps what was printed last, says what it dropped, and never makes a job fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jetq.service.jobfiles.log import LogFile, Piece, open_from, pieces, run_logs


def read(folder: Path, run: str, offset: int = 0) -> tuple[int, bytes]:
    start, parts = open_from(folder, run, offset)
    body = b"".join(os.pread(fd, past - first, first) for fd, first, past in parts)
    for fd, _first, _past in parts:
        os.close(fd)
    return start, body


def test_the_first_byte_makes_the_file(tmp_path):
    log = LogFile(tmp_path / "job", 1, limit_bytes=4096)
    before = (tmp_path / "job").exists()

    log.write(b"hello\n")

    [run] = run_logs(tmp_path / "job")
    assert not before
    assert (run.attempt, run.first, run.end) == (1, 0, 6)
    assert read(tmp_path / "job", run.run) == (0, b"hello\n")


def test_a_log_over_its_limit_keeps_its_end_and_says_so(tmp_path):
    log = LogFile(tmp_path, 1, limit_bytes=4096)
    lines = [f"line {number}\n".encode() for number in range(5000)]

    for line in lines:
        log.write(line)

    [run] = run_logs(tmp_path)
    start, kept = read(tmp_path, run.run)
    assert sum((tmp_path / piece.name).stat().st_size for piece in pieces(tmp_path)) <= 4096
    assert start == run.first > 0
    said, *rest = kept.splitlines(keepends=True)
    assert b"has reached 4096 bytes" in said
    shown = [line for line in rest if not line.startswith(b"jetq: ")]
    assert shown == lines[-len(shown) :]
    assert len(shown) > 150


def test_one_write_longer_than_the_limit_is_cut_as_well(tmp_path):
    LogFile(tmp_path, 1, limit_bytes=4096).write(b"x" * 100_000 + b"end")

    assert sum((tmp_path / piece.name).stat().st_size for piece in pieces(tmp_path)) <= 4096
    assert read(tmp_path, run_logs(tmp_path)[0].run)[1].endswith(b"xxend")


def test_offsets_stay_true_when_older_output_has_gone(tmp_path):
    log = LogFile(tmp_path, 1, limit_bytes=4096)
    log.write(b"a" * 1000)
    [run] = run_logs(tmp_path)
    early = read(tmp_path, run.run, 900)
    log.write(b"b" * 9000)
    [run] = run_logs(tmp_path)

    start, rest = read(tmp_path, run.run, 900)
    last = read(tmp_path, run.run, run.end - 5)

    assert early == (900, b"a" * 100)
    assert start == run.first > 900
    assert len(rest) == run.end - run.first
    assert last == (run.end - 5, b"bbbbb")
    assert read(tmp_path, run.run, run.end) == (run.end, b"")


def test_runs_are_told_apart_and_listed_in_order(tmp_path):
    for attempt, started_ms in ((2, 5), (1, 9), (1, 7)):
        (tmp_path / Piece(attempt, started_ms, 0).name).write_text("x")
    for name in ("1.2.log", "files", "1.x.0.log", "1.2.3.log.part", "-1.2.3.log", "1.²0.3.log"):
        (tmp_path / name).write_text("no log of ours")

    assert [run.run for run in run_logs(tmp_path)] == ["1.7", "1.9", "2.5"]


def test_a_disk_that_takes_nothing_loses_output_and_says_so_later(tmp_path):
    (tmp_path / "job").write_text("in the way")  # no folder can be made there
    log = LogFile(tmp_path / "job", 1, limit_bytes=4096)

    faults = [log.write(b"lost\n"), log.write(b"lost, too\n")]
    (tmp_path / "job").unlink()
    after = log.write(b"kept\n")

    assert all(isinstance(fault, OSError) for fault in faults)
    assert after is None
    [run] = run_logs(tmp_path / "job")
    assert (
        read(tmp_path / "job", run.run)[1] == b"jetq: 15 bytes of output were lost here: the disk took no more\nkept\n"
    )


@pytest.mark.parametrize("run", ["", "..", "1.7/../x", "9.9"])
def test_an_unknown_run_is_empty(tmp_path, run):
    (tmp_path / Piece(1, 7, 0).name).write_text("x")

    assert read(tmp_path, run) == (0, b"")
