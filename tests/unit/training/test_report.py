"""Progress, as the node reads it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import torch

from jetq.errors import UsageError
from jetq.training import progress, report


@pytest.fixture(autouse=True)
def first_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test be a process that has not reported yet."""
    monkeypatch.setattr(report, "_Last", type("_Last", (), {"at_s": float("-inf"), "failed": False}))


@pytest.fixture
def told(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("JETQ_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


def test_the_first_and_the_last_step_are_passed_on_and_few_between(told):
    progress(1, 1000, loss=0.5)
    first = json.loads(told.read_text())
    for step in range(2, 1000):
        progress(step, 1000, loss=0.4)
    between = json.loads(told.read_text())["step"]
    progress(1000, 1000, loss=0.1, epoch=3)

    assert first == {"step": 1, "total": 1000, "metrics": {"loss": 0.5}}
    assert between < 999
    assert json.loads(told.read_text()) == {"step": 1000, "total": 1000, "metrics": {"loss": 0.1, "epoch": 3}}
    assert list(told.parent.iterdir()) == [told]


def test_a_reader_never_meets_half_a_report(told, monkeypatch):
    monkeypatch.setattr(report, "REPORT_S", 0)
    progress(1, 2000)
    seen: list[int] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen.append(json.loads(told.read_text())["step"])

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(2000):
        progress(step, 2000, loss=1.0, lr=0.1)
    ended.set()
    reader.join(10)

    assert len(seen) > 1
    assert set(seen) <= set(range(2000))


@pytest.mark.parametrize("environ", [{"RANK": "1"}, {"OMPI_COMM_WORLD_RANK": "1"}])
def test_only_rank_0_reports(told, monkeypatch, environ):
    names = {"RANK": ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    names["OMPI_COMM_WORLD_RANK"] = tuple(f"OMPI_COMM_WORLD_{n}" for n in ("SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
    [own] = environ
    for name, value in zip((own, *names[own]), "1212", strict=True):
        monkeypatch.setenv(name, value)

    progress(1, 1)

    assert not told.exists()


def test_outside_of_a_gang_nobody_listens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    progress(1, 2, loss=0.1)

    assert not list(tmp_path.iterdir())


def test_a_metric_that_is_not_finite_is_unknown(told):
    progress(1, 1, loss=float("nan"), best=float("inf"))

    assert json.loads(told.read_text())["metrics"] == {"loss": None, "best": None}


@pytest.mark.parametrize(
    ("step", "total", "metrics", "complaint"),
    [
        (1, 2, {"loss": torch.ones(1)}, r"loss must be a number, not Tensor; give loss.item\(\)"),
        (1, 2, {"loss": "0.5"}, "loss must be a number, not str"),
        (1, 2, {"good": True}, "good must be a number, not bool"),
        (3, 2, {}, "step 3 is beyond the last one, 2"),
        (-1, 2, {}, "step must be a whole number, 0 or more, not -1"),
        (0, 0, {}, "total must be a whole number, 1 or more, not 0"),
        (1.5, 2, {}, "step must be a whole number"),
        (True, 2, {}, "step must be a whole number"),
    ],
)
def test_what_is_no_number_is_refused_also_where_nobody_listens(step, total, metrics, complaint):
    with pytest.raises(UsageError, match=complaint):
        progress(step, total, **metrics)


def test_a_report_that_cannot_be_written_ends_no_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JETQ_PROGRESS", str(tmp_path / "gone" / "progress.json"))

    progress(2, 2)
    progress(2, 2)

    assert capsys.readouterr().err.count("progress is not passed on") == 1
