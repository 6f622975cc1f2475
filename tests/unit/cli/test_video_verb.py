"""`jetq video`, as far as it goes without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetq.cli import main
from jetq.cli.video import analyzer_settings
from jetq.errors import UsageError


def test_settings_of_the_analyzer_are_read_as_json_where_they_are():
    assert analyzer_settings(("every=3", "name=left", "box=[1, 2]")) == {"every": 3, "name": "left", "box": [1, 2]}


@pytest.mark.parametrize("word", ["every", "=3", "two words=3", "every=[1"])
def test_a_setting_that_makes_no_sense_is_refused(word: str):
    with pytest.raises(UsageError):
        analyzer_settings((word,))


def test_an_annotated_film_never_replaces_a_given_one(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mine = tmp_path / "yard.mp4"
    mine.write_bytes((clips / "bikes.mp4").read_bytes())

    code = main(["video", str(mine), "--annotate", "--out", str(tmp_path)])

    assert code == 2
    assert "would replace this one; choose another folder with --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.mp4"], "no such file or folder"),
        (["{clip}", "--analyzer", "motoin"], "did you mean 'motion'"),
        (["{clip}", "--analyzer", "nowhere:Eye"], "module 'nowhere' cannot be found"),
        (["{clip}", "--set", "speed=3"], "cannot be made with"),
        (["{clip}", "--chunk-s", "-1"], "chunk length"),
        (["{clip}", "--repeat", "0"], "repeat must be 1 or more"),
        (["{clip}", "--out", "/dev/null/out"], "--out"),
        (["{clip}", "--priority", "soon"], "priority"),
        ([], "Missing argument"),
    ],
)
def test_what_is_asked_wrongly_is_one_line_and_exit_2_without_any_broker(
    clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words, said
):
    monkeypatch.chdir(tmp_path)

    code = main(["video", *(word.format(clip=clips / "bikes.mp4") for word in words)])

    printed = capsys.readouterr()
    assert code == 2
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
