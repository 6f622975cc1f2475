"""The analyzer `onnx`: known answers of real models, and one clear line for what cannot be used."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from onnx import TensorProto, helper

from jetq.errors import UsageError
from jetq.video.analyzers.answers import Found, suppressed
from jetq.video.analyzers.base import Result
from jetq.video.analyzers.load import appetite, make
from jetq.video.analyzers.look import look
from jetq.video.chunks import whole
from jetq.video.source import Reader, probe
from tests import models

COLOURS = ["red", "green", "blue"]
ROOT = Path(__file__).resolve().parents[3]


def flat(blue: int, green: int, red: int, size: tuple[int, int] = (160, 90)) -> np.ndarray:
    return np.full((size[1], size[0], 3), (blue, green, red), np.uint8)


def seen(picture: np.ndarray, model: Path, **options: Any) -> Result:
    analyzer = make("onnx", {"model": str(model), **options})
    analyzer.start()
    found = look(analyzer, picture, 0.0)
    analyzer.stop()
    assert found is not None
    return found


@pytest.mark.parametrize("softmax", [False, True])
def test_a_picture_is_classified(tmp_path: Path, softmax: bool):
    model = models.colours(tmp_path / "m.onnx", softmax=softmax)
    found = [
        seen(flat(*bgr), model, task="classify", labels=COLOURS) for bgr in ((0, 0, 255), (0, 255, 0), (255, 0, 0))
    ]

    assert [one.labels for one in found] == [("red",), ("green",), ("blue",)]
    assert all(one.score == one.scores[0] > 0.99 for one in found)
    assert [one.values["class"] for one in found] == [0, 1, 2]


def test_what_is_too_uncertain_has_no_label(tmp_path: Path):
    found = seen(flat(9, 9, 9), models.colours(tmp_path / "m.onnx"), task="classify", labels=COLOURS, threshold=0.5)

    assert found.labels == ()
    assert found.score == pytest.approx(1 / 3, abs=1e-5)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 3, 24, 40), models.FLOAT),
        ((1, 24, 40, 3), models.FLOAT),
        ((1, 24, 40, 3), models.BYTES),
        ((1, 3, 24, 40), models.HALF),
        (("batch", 3, 24, 40), models.FLOAT),
    ],
)
def test_layout_and_numbers_are_told_from_the_input(tmp_path: Path, shape: models.Shape, dtype: int):
    found = seen(flat(10, 20, 200), models.colours(tmp_path / "m.onnx", shape, dtype=dtype))

    assert found.values == pytest.approx({"said.mean": 10 * 230 / 3 / 255, "said.max": 10 * 200 / 255}, rel=2e-3)
    assert found.score == 1.0


def test_scale_mean_std_and_colours_are_as_asked(tmp_path: Path):
    model = models.colours(tmp_path / "m.onnx")
    found = seen(flat(10, 20, 200), model, scale=1, mean=[8, 16, 32], std=[1, 2, 4], colours="bgr")

    assert found.values["said.max"] == pytest.approx(10 * (200 - 32) / 4)
    assert found.values["said.mean"] == pytest.approx(10 * ((10 - 8) + (20 - 16) / 2 + (200 - 32) / 4) / 3)


def test_a_grey_model_sees_grey(tmp_path: Path):
    found = seen(flat(0, 255, 0), models.colours(tmp_path / "m.onnx", (1, 1, 32, 32)))

    assert found.values["said.mean"] == pytest.approx(10 * 150 / 255, rel=1e-3)


def test_a_model_of_any_size_takes_the_size_that_is_said(tmp_path: Path):
    model = models.colours(tmp_path / "m.onnx", (1, 3, "h", "w"))

    assert seen(flat(0, 0, 255), model, size="64x48", task="classify", labels=COLOURS).labels == ("red",)
    assert seen(flat(0, 0, 255), model, size=64, task="classify", labels=COLOURS).labels == ("red",)


@pytest.mark.parametrize("rows", ["v8", "v5"])
@pytest.mark.parametrize("size", [(160, 90), (90, 160), (64, 64), (320, 180)])
def test_boxes_lie_where_things_are_in_the_frame(tmp_path: Path, rows: str, size: tuple[int, int]):
    model = models.grid(tmp_path / "m.onnx", rows=rows)
    ratio = 64 / max(size)
    left, top = (round((64 - side * ratio) / 2) for side in size)
    picture = flat(0, 0, 0, size)
    cell = [
        round((32 - left) / ratio),
        round((32 - top) / ratio),
        round((48 - left) / ratio),
        round((48 - top) / ratio),
    ]
    picture[max(0, cell[1]) : cell[3], max(0, cell[0]) : cell[2]] = 255  # the third cell of the third row
    found = seen(picture, model, task="detect", threshold=0.8, labels=["bright", "dark"])
    bright = [box for box, label in zip(found.boxes, found.labels, strict=True) if label == "bright"]

    assert len(bright) == 1
    x, y, width, height = bright[0]
    assert [x, y, x + width, y + height] == pytest.approx(cell, abs=2)
    assert found.score == max(found.scores) >= 0.9
    assert found.values["found"] == len(found.boxes) == len(found.scores)


def test_of_boxes_upon_each_other_the_surest_of_each_class_stays():
    corners = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [1, 0, 11, 10], [20, 0, 30, 10]], np.float32)
    found = Found(corners, np.array([0.6, 0.9, 0.7, 0.5], np.float32), np.array([0, 0, 1, 0]))
    kept = suppressed(found, 0.45)

    assert kept.scores.tolist() == pytest.approx([0.9, 0.7, 0.5])
    assert kept.classes.tolist() == [0, 1, 0]
    assert len(suppressed(found, 1.0).scores) == 4


def test_a_model_that_suppresses_by_itself_is_taken_at_its_word(tmp_path: Path):
    model = models.final(tmp_path / "m.onnx", [[8, 16, 24, 32, 0.9, 1], [9, 16, 24, 32, 0.8, 1], [0, 0, 9, 9, 0.1, 0]])
    found = seen(flat(1, 1, 1, (64, 64)), model, task="detect", labels=["cat", "dog"])

    assert found.boxes == ((8, 16, 16, 16), (9, 16, 15, 16))
    assert found.labels == ("dog", "dog")


def test_rows_that_hold_no_number_are_left_out(tmp_path: Path):
    model = models.final(tmp_path / "m.onnx", [[np.nan, 0, 9, 9, 0.9, 0], [0, 0, np.inf, 9, 0.9, 0]])

    assert seen(flat(1, 1, 1), model, task="detect") == Result(0.0, values={"found": 0})


def test_real_clips_give_what_numpy_says(tmp_path: Path, clips: Path):
    colours = make("onnx", {"model": str(models.colours(tmp_path / "c.onnx", (1, 3, 72, 128)))})
    cells = {"model": str(models.grid(tmp_path / "g.onnx", side=128)), "task": "detect", "threshold": 0.0}
    grid = make("onnx", cells | {"labels": ["bright", "dark"]})
    clip = probe(clips / "bikes.mp4")
    with Reader(str(clip.path)) as reader:
        pictures = [frame.picture() for frame in reader.frames(whole(clip.index)) if not frame.index % 50]

    assert len(pictures) == 5
    for picture in pictures:
        means = cv2.resize(picture, (128, 72)).mean(axis=(0, 1)) / 255 * 10
        found = look(colours, picture, 0.0)
        assert found is not None
        assert found.values == pytest.approx({"said.mean": means.mean(), "said.max": means.max()}, rel=1e-3)
        result = look(grid, picture, 0.0)
        assert result is not None
        for box, label, score in zip(result.boxes, result.labels, result.scores, strict=True):
            x, y, width, height = box
            if label == "bright" and y > 0 and y + height < picture.shape[0]:
                here = picture[y : y + height, x : x + width].mean() / 255
                assert score == pytest.approx(here, abs=0.06)


def bad_model(folder: Path, what: str) -> Path:
    path, mean = folder / "m.onnx", helper.make_node("GlobalAveragePool", ["picture"], ["said"])
    match what:
        case "text":
            path.write_text("no model at all")
        case "empty":
            path.write_bytes(b"")
        case "cut":
            whole_ = models.colours(path).read_bytes()
            path.write_bytes(whole_[: len(whole_) // 2])
        case "two inputs":
            add = helper.make_node("Add", ["a", "b"], ["said"])
            sides = (1, 3, 8, 8)
            models.save(path, [add], [("a", 1, sides), ("b", 1, sides)], [("said", sides)])
        case "flat":
            models.save(path, [helper.make_node("Neg", ["x"], ["said"])], [("x", 1, (1, 10))], [("said", (1, 10))])
        case "whole numbers":
            cast = helper.make_node("Cast", ["x"], ["said"], to=1)
            models.save(path, [cast], [("x", TensorProto.INT64, (1, 3, 8, 8))], [("said", (1, 3, 8, 8))])
        case "eight":
            models.save(path, [mean], [("picture", 1, (8, 3, 32, 32))], [("said", (8, 3, 1, 1))])
        case "no colours":
            models.save(path, [mean], [("picture", 1, (1, 7, 32, 32))], [("said", (1, 7, 1, 1))])
        case "fixed inside":
            shape = helper.make_node("Reshape", ["picture", "to"], ["said"])
            constants: dict[str, Any] = {"to": np.array([1, 3 * 32 * 32], np.int64)}
            models.save(path, [shape], [("picture", 1, (1, 3, "h", "w"))], [("said", (1, 3072))], constants)
        case _:
            models.colours(path)
    return path


@pytest.mark.parametrize(
    ("what", "options", "said"),
    [
        ("text", {}, r"^onnx: m\.onnx cannot be loaded: Protobuf parsing failed\.$"),
        ("empty", {}, "m.onnx cannot be loaded"),
        ("cut", {}, "m.onnx cannot be loaded"),
        ("two inputs", {}, r"has 2 inputs \(a, b\); it must take one picture"),
        ("flat", {}, "takes 1x10 float32; a picture has four sides"),
        ("whole numbers", {}, r"takes tensor\(int64\)"),
        ("eight", {}, "takes 8 pictures at once"),
        ("no colours", {}, "has no side of 3 colours"),
        ("no colours", {"layout": "nchw"}, "has 7 colours"),
        ("fixed inside", {}, r"leaves its size open; say it with size="),
        ("fixed inside", {"size": "64x64"}, "fails on a picture of 1x3x64x64"),
        ("", {"size": "64x64"}, "takes no size 64x64"),
        ("", {"size": "big"}, "a size is WIDTHxHEIGHT"),
        ("", {"task": "guess"}, "task must be one of classify, detect, raw"),
        ("", {"task": "detect"}, "an output of 1x3 has no boxes"),
        ("", {"task": "classify", "labels": ["a", "b"]}, "knows 3 classes, and labels has 2 names"),
        ("", {"labels": "cat"}, "labels must be a list of names"),
        ("", {"threshold": 2}, "threshold must be a number from 0 to 1"),
        ("", {"threads": 0}, "threads must be a whole number from 1 to 64"),
        ("", {"mean": [1, 2]}, "mean must be one number, or one for each of 3 colours"),
        ("", {"std": 0}, "std divides"),
        ("", {"scale": "a lot"}, "scale must be a number"),
        ("", {"layout": "hcwn"}, "layout is one of nchw, nhwc"),
        ("", {"provider": "gpu"}, "provider must be one of cuda, tensorrt, cpu"),
        ("", {"provider": "cuda"}, "there is no provider cuda on this machine, only cpu"),
        ("", {"every": 0}, "and every 1 or more"),
        ("", {"speed": 3}, "cannot be made with"),
        ("", {"model": ""}, "give the file of a model"),
        ("", {"model": "none.onnx"}, "none.onnx is no file"),
    ],
)
def test_what_cannot_be_used_is_one_line_at_the_start(tmp_path: Path, what: str, options: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said) as caught:
        appetite(make("onnx", {"model": str(bad_model(tmp_path, what)), **options}))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make_model", "options", "said"),
    [
        (models.grid, {"labels": ["one"]}, r"knows 2 classes \(rows=v8\), and labels has 1 names"),
        (models.grid, {"rows": "nms"}, "rows=nms has six columns, and the output is 1x6x16"),
        (models.grid, {"rows": "v7"}, "rows must be one of v8, v5, nms"),
    ],
)
def test_a_detector_that_is_none_is_refused(
    tmp_path: Path, make_model: Callable[..., Path], options: dict[str, Any], said: str
):
    with pytest.raises(UsageError, match=said):
        make("onnx", {"model": str(make_model(tmp_path / "m.onnx")), "task": "detect", **options})


def test_a_detector_is_no_classifier(tmp_path: Path):
    with pytest.raises(UsageError, match="an output of 1x6x16 is no list of classes"):
        make("onnx", {"model": str(models.grid(tmp_path / "m.onnx")), "task": "classify"})


def test_a_model_that_is_named_by_its_content_is_named_shortly(tmp_path: Path):
    (tmp_path / f"{'ab' * 32}.onnx").write_text("no model")

    with pytest.raises(UsageError, match=r"^onnx: abababababab\.onnx cannot be loaded"):
        make("onnx", {"model": str(tmp_path / f"{'ab' * 32}.onnx")})


def test_what_computes_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "jetq.onnx"):
        seen(flat(1, 1, 1), models.colours(tmp_path / "m.onnx"))

    assert "onnx.ready model=m.onnx task=raw provider=cpu input=32x32 threads=1" in caplog.text


def test_a_picture_costs_one_thread(tmp_path: Path):
    code = (
        "import sys, threading, os; from jetq.video.analyzers.load import make; import cv2, numpy as np, onnxruntime\n"
        "cv2.setNumThreads(1); before = len(os.listdir('/proc/self/task'))\n"
        "made = make('onnx', {'model': sys.argv[1]})\n"
        "made.frame(np.zeros((90, 160, 3), np.uint8), 0.0); print(len(os.listdir('/proc/self/task')) - before)"
    )
    command = [sys.executable, "-c", code, str(models.colours(tmp_path / "m.onnx"))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)

    assert ran.stdout.strip() == "0"


def test_only_who_asks_for_it_loads_onnxruntime(tmp_path: Path):
    code = (
        "import sys, jetq.video, jetq.video.models, jetq.video.served; from jetq.video.analyzers.load import make\n"
        "make('motion'); print('onnxruntime' in sys.modules); sys.modules['onnxruntime'] = None\n"
        "try: make('onnx', {'model': 'x'})\nexcept Exception as exc: print(exc)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)

    assert ran.stdout.splitlines() == [
        "False",
        "this needs onnxruntime: install jetq with its `onnx` extra on this machine",
    ]
