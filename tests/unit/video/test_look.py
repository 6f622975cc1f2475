"""One look of an analyzer: its result as plain values, None, or an error that says what it returned instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jetq.errors import UsageError
from jetq.video.analyzers.base import Result
from jetq.video.analyzers.look import MOST_BOXES, MOST_TEXT, look
from jetq.video.chunks import whole
from jetq.video.farm import analyze_files
from jetq.video.run import analyze_chunk
from jetq.video.source import probe
from jetq.video.study import Study, prepare

PICTURE = np.zeros((9, 16, 3), np.uint8)


class Says:
    """An analyzer that always returns the same."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def start(self) -> None: ...

    def frame(self, picture: np.ndarray, t_s: float) -> Any:
        return self.said

    def stop(self) -> None: ...


def test_numbers_of_numpy_become_plain_ones():
    said = Result(
        np.float32(0.5), [np.array([1, 2, 3, 4.4])], {"n": np.int64(3), "x": 1.5}, None, ["a"], [np.float64(1)]
    )
    found = look(Says(said), PICTURE, 0.0)

    assert found == Result(0.5, ((1, 2, 3, 4),), {"n": 3, "x": 1.5}, None, ("a",), (1.0,))
    assert json.loads(json.dumps([found.score, found.boxes, found.named])) == [
        0.5,
        [[1, 2, 3, 4]],
        {"n": 3, "x": 1.5, "labels": ["a"], "scores": [1.0]},
    ]


def test_none_is_nothing_to_report():
    assert look(Says(None), PICTURE, 0.0) is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (0.5, r"Says.frame\(\) must return a .*Result or None, not 0.5 \(float\)"),
        ({"score": 1}, "must return a"),
        (Result("much"), "whose score must be a finite number, not 'much'"),
        (Result(float("nan")), "score must be a finite number, not nan"),
        (Result(0.5, boxes=5), "boxes must be a tuple"),
        (Result(0.5, boxes=((1, 2, 3),)), r"boxes must be \(x, y, width, height\) in pixels, not \(1, 2, 3\)"),
        (Result(0.5, boxes=("abcd",)), "boxes must be"),
        (Result(0.5, boxes=((1, 2, 3, None),)), "boxes must be"),
        (Result(0.5, boxes=((1, 2, 3, 4),) * (MOST_BOXES + 1)), f"boxes are {MOST_BOXES + 1}"),
        (Result(0.5, values={"a": "b"}), "value 'a' must be a finite number, not 'b'"),
        (Result(0.5, values={1: 2.0}), "names of text"),
        (Result(0.5, values=[1]), "values must be a dict"),
        (Result(0.5, jpeg="text"), "jpeg must be bytes or None"),
        (Result(0.5, labels="dog"), "labels must be a tuple"),
        (Result(0.5, labels=(1,)), "labels must be words"),
        (Result(10**5000), "score must be below 2.*63"),
        (Result(0.5, boxes=((0, 0, 1e300, 4),)), r"boxes must be \(x, y, width, height\) in pixels"),
        (Result(0.5, values={"k" * (MOST_TEXT + 1): 1}), f"have {MOST_TEXT + 1} characters; {MOST_TEXT} is the most"),
        (Result(0.5, labels=("l" * MOST_TEXT, "m")), "is the most"),
        (Result(0.5, labels=("\ud800",)), "labels must be text"),
        (Result(0.5, values={"\udc80": 1}), "must be text"),
        (Result(0.5, scores=("x",)), "scores must be a finite number"),
    ],
)
def test_what_is_no_result_is_told(said: Any, told: str):
    with pytest.raises(UsageError, match=told):
        look(Says(said), PICTURE, 0.0)


def test_what_the_analyzer_raises_passes():
    class Breaks(Says):
        def frame(self, picture: np.ndarray, t_s: float) -> Any:
            raise ZeroDivisionError("own")

    with pytest.raises(ZeroDivisionError, match="own"):
        look(Breaks(None), PICTURE, 0.0)


QUIET = '''
from jetq.video.analyzers.base import Result

class Quiet:
    """Reports every fifth second frame, or nothing."""
    def __init__(self, most=1000): self.most = most
    def start(self): self.seen = 0
    def frame(self, picture, t_s):
        self.seen += 1
        return Result(0.5) if self.seen % 5 == 0 and self.seen <= self.most else None
    def stop(self): pass

class Garbage(Quiet):
    def frame(self, picture, t_s): return 5
'''


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("quiet")
    (folder / "quiet_eyes.py").write_text(QUIET)
    monkeypatch.syspath_prepend(str(folder))


def test_frames_without_a_report_have_no_line_in_files(own: None, make_video: Any):
    path = make_video(frames=20)
    place = {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}
    found = analyze_chunk(place, whole(probe(path).index).as_json(), "quiet_eyes:Quiet")

    assert [row[0] for row in found["frames"]] == [4, 9, 14, 19]
    assert found["n_frames"] == 20


def test_a_film_without_any_report_has_outputs_all_the_same(own: None, make_video: Any, tmp_path: Path, crew: Any):
    study = Study("quiet_eyes:Quiet", {"most": 0}, annotate=True)
    report = analyze_files(prepare([make_video(frames=20)], study, tmp_path / "out"), crew.crew())

    assert (report.files[0].hits, report.files[0].peak_time_s, report.frames) == (0, None, 20)
    assert (tmp_path / "out" / "made.jsonl").read_text() == ""


def test_a_file_s_analyzer_that_returns_garbage_is_told(own: None, make_video: Any):
    path = make_video(frames=5)
    place = {"name": path.name, "url": str(path), "size_bytes": path.stat().st_size}

    with pytest.raises(UsageError, match=r"Garbage.frame\(\) must return a"):
        analyze_chunk(place, whole(probe(path).index).as_json(), "quiet_eyes:Garbage")
