"""What ranks write into the file of their progress is passed on only where it is in order, and holds nobody up."""

from __future__ import annotations

import json
import os

import pytest

from jetq.service.progress import MOST_BYTES, ProgressFile, in_order


@pytest.fixture
def path(tmp_path):
    """Give the place of the file; nothing is there."""
    return tmp_path / "progress"


def test_what_is_new_is_told_once(path):
    progress = ProgressFile(path)
    assert progress.news() == ""

    path.write_text('{"step": 3, "total": 10, "metrics": {"loss": 0.5}}')
    news = progress.news()

    assert json.loads(news) == {"step": 3, "total": 10, "metrics": {"loss": 0.5}}
    assert progress.news() == news  # it was not told
    progress.told(news)
    assert progress.news() == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"\0" * 10,
        b"3",
        b"[1, 2]",
        b'"step"',
        b"null",
        b'{"step": "3"}',
        b'{"step": -1, "total": 3}',
        b'{"step": NaN, "total": 3}',
        b'{"step": 1e400, "total": 3}',
        b'{"step": true, "total": 3}',
        b'{"step": 1, "total": {}}',
        b'{"step": 1, "total": 2, "metrics": [1]}',
        b'{"step": 1, "total": 2, "metrics": {"loss": "low"}}',
        b'{"step": 1, "total": 2, "metrics": {"loss": {"deep": 1}}}',
        b'{"step": ' + b"9" * 5000 + b"}",
        b"[" * (MOST_BYTES - 10),
        b'{"step": 1, "total": 2}' + b" " * MOST_BYTES,
        b"x" * 10_000_000,
    ],
)
def test_garbage_is_not_told(path, content):
    path.write_bytes(content)

    assert ProgressFile(path).news() == ""


def test_numbers_that_json_has_not_are_told_as_unknown_and_what_nobody_reads_is_left_out():
    said = in_order(
        b'{"step": 1, "total": null, "metrics": {"loss": NaN, "rate": Infinity, "none": null}, "more": "x"}'
    )

    assert json.loads(said) == {"step": 1, "total": None, "metrics": {"loss": None, "rate": None, "none": None}}


def test_what_is_no_file_holds_nobody_up(path):
    progress = ProgressFile(path)
    os.mkfifo(path)
    assert progress.news() == ""
    path.unlink()
    path.mkdir()
    assert progress.news() == ""
    path.rmdir()
    path.symlink_to("/dev/zero")
    assert progress.news() == ""
    path.unlink()
    path.symlink_to(path)
    assert progress.news() == ""
