"""Checkpoints: whole or not there, the same on all ranks."""

from __future__ import annotations

import pickle

import pytest
import torch

from jetq.errors import JetqError, UsageError
from jetq.training import attempt, checkpoint_dir, load, save

#: Writes a large checkpoint for as long as it lives, over and over.
WRITES = """
import torch
from jetq import training
state = {"epoch": 2, "weights": torch.zeros(20_000_000)}
while True:
    training.save(state)
"""
FULL = """
import resource, torch
from jetq import training
training.save({"epoch": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
training.save({"epoch": 2, "weights": torch.zeros(1_000_000)})
"""
LOADS = """
from jetq import training
with training.init() as ranks:
    training.save({"epoch": 5, "weights": __import__("torch").arange(9_000_000)})
    found = training.load()
    print(found["epoch"], found["weights"].sum().item(), training.load("other.pt"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JETQ_CKPT_DIR", str(tmp_path / "kept" / "g-1"))
    return tmp_path / "kept" / "g-1"


def test_a_checkpoint_comes_back_as_it_was_saved(folder):
    assert load() is None

    save({"epoch": 3, "weights": torch.arange(4)})

    assert load()["epoch"] == 3
    assert load()["weights"].tolist() == [0, 1, 2, 3]
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]


def test_outside_of_a_gang_checkpoints_are_kept_right_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert checkpoint_dir() == tmp_path / "checkpoints"
    assert checkpoint_dir().is_dir()
    assert attempt() == 1


def test_a_rank_knows_its_attempt(monkeypatch):
    monkeypatch.setenv("JETQ_ATTEMPT", "3")

    assert attempt() == 3


def test_a_write_that_was_killed_leaves_the_checkpoint_before(start_ranks, folder, wait_until):
    save({"epoch": 1})
    before = (folder / "checkpoint.pt").stat().st_ino
    [writer] = start_ranks(WRITES, 1, JETQ_CKPT_DIR=str(folder))

    def half_written() -> bool:
        sizes = [path.stat().st_size for path in folder.glob(".*.part")]
        return bool(sizes) and 0 < sizes[0] < 70_000_000

    wait_until(half_written, 30, "a checkpoint half written")
    writer.kill()

    torn = list(folder.glob(".*.part"))
    assert load()["epoch"] == (1 if (folder / "checkpoint.pt").stat().st_ino == before else 2)
    save({"epoch": 3})
    assert load()["epoch"] == 3
    assert not any(path.exists() for path in torn)


def test_a_full_disk_leaves_the_checkpoint_before_and_says_so(start_ranks, folder):
    [rank] = start_ranks(FULL, 1, JETQ_CKPT_DIR=str(folder))
    code, _, err = rank.end()

    assert code == 1
    assert "JetqError: checkpoint " in err.splitlines()[-1]
    assert "was not written" in err.splitlines()[-1]
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]
    assert load()["epoch"] == 1


def test_a_state_that_cannot_be_saved_leaves_nothing(folder):
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        save({"hook": lambda: None})

    assert not list(folder.iterdir())


def test_every_rank_loads_what_rank_0_finds(start_ranks, tmp_path):
    ranks = start_ranks(LOADS, 2)
    ended = [rank.end() for rank in ranks]

    assert [code for code, _, _ in ended] == [0, 0], ended
    assert {out.strip() for _, out, _ in ended} == {f"5 {9_000_000 * 8_999_999 // 2} None"}
    assert (tmp_path / "0" / "checkpoints" / "checkpoint.pt").exists()
    assert not (tmp_path / "1" / "checkpoints" / "checkpoint.pt").exists()


@pytest.mark.parametrize("content", [b"no checkpoint", b"PK\x03\x04", b"\x80\x02}"])
def test_a_file_that_is_no_checkpoint_is_named(folder, content):
    checkpoint_dir()
    (folder / "checkpoint.pt").write_bytes(content)

    with pytest.raises(JetqError, match=r"checkpoint\.pt of rank 0 is no checkpoint"):
        load()


def test_a_checkpoint_runs_no_code_when_it_is_loaded(folder):
    checkpoint_dir()
    torch.save({"hook": print}, folder / "checkpoint.pt")

    with pytest.raises(JetqError, match="no checkpoint of tensors and plain values"):
        load()


@pytest.mark.parametrize("name", ["", "../out.pt", "a/b.pt", ".."])
def test_a_checkpoint_stays_in_its_folder(folder, name):
    with pytest.raises(UsageError, match="without folders"):
        save({}, name)


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JETQ_CKPT_DIR", str(tmp_path / "file" / "kept"))

    with pytest.raises(JetqError, match="the folder for checkpoints cannot be made"):
        checkpoint_dir()
