r"""What torchrun 2.13 and Open MPI 4.1.4 and 5.0.11 wrote (``written/``) is read as what the ranks said.

Two ranks printed ``hello``, an empty line, an error line, ``a\rb\rc``, tags that are not theirs, bytes that are no
UTF-8, and the beginning of a line; then rank 1 ended as the file's name says, or both did.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jetq.clock import ManualClock
from jetq.launch.causes import RootCause
from jetq.launch.output import BAR_S, LONGEST_LINE, TAIL_LINES, TAIL_RANKS, TAIL_WIDTH, Line, Output

WRITTEN = Path(__file__).parent / "written"
LAUNCHERS = ("torchrun", "mpirun4", "mpirun5")


def reader(name: str, clock: ManualClock | None = None, ranks: tuple[int, ...] = (0, 1)) -> Output:
    clock = clock or ManualClock()
    if name.startswith("torchrun"):
        return Output.of_torchrun(ranks, clock)
    return Output.of_mpirun(int(name[6]), len(ranks), clock)


def read(name: str) -> tuple[Output, list[Line]]:
    output = reader(name)
    lines = output.feed((WRITTEN / f"{name}.txt").read_bytes())
    return output, lines + output.close()


def said(lines: list[Line], rank: int | None) -> list[str]:
    return [line.text for line in lines if line.rank == rank]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("how", ["ends", "exits", "killed"])
def test_each_rank_has_said_what_it_printed(launcher: str, how: str):
    _, lines = read(f"{launcher}_{how}")

    for rank in (0, 1):
        texts = [text for text in said(lines, rank) if text not in ("a", "b")]
        for text in ("", f"hello {rank}", "c", "[1,2]<stdout>: fake", "[default1]:fake", "bad �� end"):
            assert texts.count(text) == 1
        begun = "".join(texts)
        assert "no newline" in begun and f"err line {rank}" in begun


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("how", "code", "why"), [("exits", 3, "exited with code 3"), ("killed", -9, "was killed by signal 9 (SIGKILL)")]
)
def test_the_rank_that_failed_first_is_named(launcher: str, how: str, code: int, why: str):
    output, _ = read(f"{launcher}_{how}")

    assert output.cause == RootCause(1, code, why)


@pytest.mark.parametrize("name", ["mpirun4_aborts", "mpirun5_aborts"])
def test_a_rank_that_called_abort_is_named_with_its_code(name: str):
    output, _ = read(name)

    assert output.cause == RootCause(1, 7, "called MPI_Abort with code 7")


def test_a_recorded_exception_is_part_of_the_cause():
    output, _ = read("torchrun_record")

    assert output.cause == RootCause(1, 1, "exited with code 1 (ValueError: boom here)")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_that_end_well_have_no_cause(launcher: str):
    output, _ = read(f"{launcher}_ends")

    assert output.cause is None


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_the_launcher_says_is_no_ranks_word(launcher: str):
    output, lines = read(f"{launcher}_exits")
    own = "\n".join(said(lines, None))

    assert "rank      : 1" in own or "Exit code:    3" in own
    assert not any("terminated" in text or "torch/" in text or "----" in text for text in said(lines, 0))
    assert not any("terminated" in text or "torch/" in text or "----" in text for text in said(lines, 1))
    assert output.tail(None) == said(lines, None)[-TAIL_LINES:]


@pytest.mark.parametrize("name", sorted(path.stem for path in WRITTEN.iterdir()))
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_it_does_not_matter_how_the_bytes_arrive(name: str, size: int):
    data = (WRITTEN / f"{name}.txt").read_bytes()
    output = reader(name)
    lines = [line for at in range(0, len(data), size) for line in output.feed(data[at : at + size])] + output.close()
    whole, at_once = read(name)

    def firm(lines: list[Line]) -> list[Line]:  # states of bars depend on when they are seen
        return [line for line in lines if line.text not in ("a", "b") and "%|" not in line.text]

    assert firm(lines) == firm(at_once)
    assert output.cause == whole.cause


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_lines_that_come_in_pieces_are_put_together(launcher: str):
    _, lines = read(f"{launcher}_pieces")

    for rank in (0, 1):
        texts = said(lines, rank)
        assert "é" * 2500 + "|" in texts
        assert "part0 part1 part2 part3 done" in texts
        assert texts.count("100%|##5  |") == 1


def test_ranks_of_a_torchrun_are_counted_over_all_nodes():
    output = reader("torchrun", ranks=(4, 5))

    assert output.feed(b"[default1]:one\n[default0]:nought\n[default2]:nobody\n") == [
        Line(5, "one"),
        Line(4, "nought"),
        Line(None, "[default2]:nobody"),
    ]


def test_a_daemon_has_only_lines_of_its_own():
    output = Output.of_daemon()

    assert output.feed(b"[1,0]<stdout>:a\nb") == [Line(None, "[1,0]<stdout>:a")]
    assert output.close() == [Line(None, "b")]


def test_a_long_line_is_cut_between_characters():
    output = reader("mpirun5")
    lines = output.feed(b"[1,0]<stdout>: x" + "é".encode() * LONGEST_LINE + b"\n")

    assert "".join(line.text for line in lines) == "x" + "é" * LONGEST_LINE
    assert len(lines) == 3
    assert all(line.rank == 0 and len(line.text.encode()) <= LONGEST_LINE for line in lines)


def test_bytes_without_a_line_break_do_not_pile_up():
    output = reader("mpirun5")
    lines = output.feed(b"[1,0]<stdout>: ")
    for _ in range(64):
        lines += output.feed(b"x" * 65536)

    assert len(lines) == 63
    assert [len(line.text) for line in output.close()] == [65536]


def test_many_ranks_that_never_end_a_line_do_not_pile_up():
    output = Output.of_mpirun(5, 10_000, ManualClock())
    lines = output.feed(b"".join(b"[1,%d]<stdout>: x" % rank for rank in range(10_000)))

    assert len(lines) == 10_000 - 256
    assert len(lines + output.close()) == 10_000


def test_a_bar_is_shown_once_a_second_and_at_its_end():
    clock = ManualClock()
    output = reader("mpirun5", clock)
    lines = output.feed(b"[1,0]<stderr>: ")
    for percent in range(100):
        lines += output.feed(b"\r%d%%|#|" % percent)
        clock.advance(BAR_S / 20)
    lines += output.feed(b"\r100%|#|\n[1,0]<stderr>: over\n")
    texts = [line.text for line in lines]

    assert len(texts) < 9
    assert texts[0] == "0%|#|" and texts[-2:] == ["100%|#|", "over"]


def test_a_bar_of_torchrun_is_one_too_though_it_has_line_breaks():
    clock = ManualClock()
    output = reader("torchrun", clock)
    lines = []
    for percent in range(100):
        lines += output.feed(b"[default0]:%d%%|#| 3/5\n" % percent)
        clock.advance(BAR_S / 20)
    lines += output.feed(b"[default0]:over\n")
    texts = [line.text for line in lines]

    assert len(texts) < 9
    assert texts[0] == "0%|#| 3/5" and texts[-2:] == ["99%|#| 3/5", "over"]


def test_a_bar_that_wipes_itself_out_leaves_its_last_state():
    output = reader("mpirun5")

    assert output.feed(b"[1,0]<stderr>: \r1%\r2%\r  \r\n[1,0]<stderr>: x\r\n") == [Line(0, "2%"), Line(0, "x")]


def test_a_rank_that_prints_a_report_is_no_cause():
    output = reader("mpirun5")
    block = b"Process name: [prterun-x-1@1,0]\n[1,0]<stdout>: Exit code: 3\n"
    output.feed(b"[1,0]<stdout>: -------------------------\n[1,0]<stdout>: " + block)

    assert output.cause is None


def test_how_a_rank_ended_is_known_though_mpirun_says_nothing():
    output = reader("mpirun5")
    lines = output.feed(b"[1,0]<stderr>: jetq: rank 1 exited with code 4\n[1,1]<stderr>: last word\n")
    assert output.cause is None
    lines += output.feed(b"[1,1]<stderr>: jetq: rank 1 exited with code 137\n")
    lines += output.feed(b"[1,0]<stderr>: jetq: rank 0 exited with code 1\n")

    assert output.cause == RootCause(1, -9, "was killed by signal 9 (SIGKILL)")
    assert lines == [Line(0, "jetq: rank 1 exited with code 4"), Line(1, "last word")]
    assert output.tail(1) == ["last word"]


def test_tails_are_bounded():
    output = Output.of_mpirun(5, TAIL_RANKS + 1, ManualClock())
    for number in range(TAIL_LINES + 5):
        output.feed(b"[1,1]<stdout>: %d %s\n" % (number, b"x" * 1000))
    first = output.tail(1)
    for rank in range(2, TAIL_RANKS + 1):
        output.feed(b"[1,%d]<stdout>: here\n" % rank)
    output.feed(b"[1,0]<stdout>: here\n")

    assert [text.split()[0] for text in first] == [str(number) for number in range(5, TAIL_LINES + 5)]
    assert {len(text) for text in first} == {TAIL_WIDTH}
    assert output.tail(1) == []
    assert output.tail(TAIL_RANKS) == ["here"]
    assert output.tail(99999) == []
