"""What a runner says is read line by line, and what is none of a runner's is told."""

from __future__ import annotations

import json

import pytest

from jetq.errors import JetqError
from jetq.service.runnerwords import MOST_LINE, RunnerWords

REPORT = {"good": 1, "raises": 0, "trace": "", "results": [], "frame_age_s": None, "cpu_s": None, "fps_in": 0.0}


def test_lines_come_whole_however_they_arrive():
    said = [{"opened": {}}, REPORT, {"busy_s": 1.5}, {"end": "over", "why": ""}]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in said)
    words = RunnerWords()

    assert [one for at in range(0, len(data), 7) for one in words.take(data[at : at + 7])] == said


@pytest.mark.parametrize(
    "line",
    [b"garbage", b"\xff\xfe", b"", b"3", b"[]", b"{}", b'{"results": []}', b"[" * 100_000],
)
def test_what_no_runner_says_is_told(line: bytes):
    words = RunnerWords()
    assert list(words.take(b'{"busy_s": 1}\n')) == [{"busy_s": 1}]

    with pytest.raises(JetqError, match="something in its process writes where only jetq may"):
        list(words.take(line + b"\n"))


def test_a_line_without_an_end_is_told():
    words = RunnerWords()
    with pytest.raises(JetqError, match="only jetq may"):
        for _ in range(3):
            list(words.take(b"z" * (MOST_LINE // 2)))
