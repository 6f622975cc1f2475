"""Ranks that meet: real processes, real torch, Gloo (no GPU is needed)."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

from jetq.errors import UsageError
from jetq.training import backend, finish, init
from jetq.training.backend import try_backend
from jetq.training.seat import Seat

ROOT = Path(__file__).resolve().parents[3]
#: What a script without a GPU of its own can say, and asks of torch only on its use.
WITHOUT_TORCH = """
import sys
class No:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "celery", "redis", "mpi4py"):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, No())
from jetq import training
training.progress(1, 2, loss=0.5)
training.finish()
print(training.attempt(), training.checkpoint_dir().name)
try:
    training.init()
except ImportError as exc:
    print(exc)
"""
MEET = """
import torch, torch.distributed as dist
from jetq import training
with training.init() as ranks:
    assert training.init() is ranks
    one = torch.ones(1)
    dist.all_reduce(one)
    print(ranks.rank, ranks.world_size, ranks.device, ranks.backend, int(one.item()), dist.is_initialized())
print(dist.is_initialized())
"""
ASK_FOR_NCCL = """
from jetq import training
training.init("nccl")
"""
LATE = """
from jetq import training
training.init(timeout_s=1)
"""
TWICE = """
import torch.distributed as dist
from jetq import training
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
training.init()
"""
SUM = """
import os
import torch.distributed as dist
from jetq.training.backend import try_backend
from jetq.training.seat import seat
own, meet = seat(os.environ), (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
store = dist.TCPStore(*(meet[0], int(meet[1])), 2, own.rank == 0)
print(repr(try_backend("gloo", own, "cpu", meet, 40)))
dist.PrefixStore("end", store).set(str(own.rank), "")
[dist.PrefixStore("end", store).get(str(rank)) for rank in (0, 1)]
"""


def test_nothing_is_loaded_until_it_is_used(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )

    assert done.stdout.splitlines() == ["1 checkpoints", "torch is not installed"], done.stderr


def test_ranks_meet_and_rank_0_says_how_and_why(start_ranks):
    ended = [rank.end() for rank in start_ranks(MEET, 2)]

    assert [out.splitlines() for _, out, _ in ended] == [
        ["0 2 cpu gloo 2 True", "False"],
        ["1 2 cpu gloo 2 True", "False"],
    ], ended
    assert ended[0][2] == "jetq.training: 2 ranks on cpu by gloo (rank 0: no GPU that this PyTorch can use)\n"
    assert ended[1][2] == ""


def test_a_process_without_a_launcher_is_a_world_of_one():
    with init() as ranks:
        assert (ranks.rank, ranks.world_size, ranks.device, ranks.backend) == (0, 1, "cpu", "gloo")
        assert init() is ranks
        with pytest.raises(UsageError, match="have met by gloo already"):
            init("nccl")
    finish()


def test_nccl_that_was_asked_for_and_is_not_there_is_refused_on_all_ranks(start_ranks):
    ended = [rank.end() for rank in start_ranks(ASK_FOR_NCCL, 2)]

    assert [code for code, _, _ in ended] == [1, 1]
    assert all("this PyTorch was built without nccl" in err for _, _, err in ended), ended


def test_a_rank_that_never_comes_is_missed_within_the_timeout(start_ranks):
    [first] = start_ranks(LATE, 1, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    code, _, err = first.end(30)

    assert code == 1
    assert "JetqError: rank 0 cannot meet the others at 127.0.0.1 port " in err


def test_a_group_of_the_scripts_own_is_refused(start_ranks):
    [rank] = start_ranks(TWICE, 1)

    assert "leave init_process_group out" in rank.end()[2]


def test_a_backend_is_tried_in_processes_of_their_own(start_ranks):
    ended = [rank.end() for rank in start_ranks(SUM, 2)]

    assert [out.strip() for _, out, _ in ended] == ["''", "''"], ended


def test_a_backend_that_hangs_is_given_up():
    served = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)  # rank 1 never tries

    why = try_backend("gloo", Seat(0, 2, 0, 2), "cpu", ("127.0.0.1", str(served.port)), 4)

    assert why == "gloo did not sum one number within 4 s"


def test_a_backend_that_fails_says_why():
    served = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)

    why = try_backend("nccl", Seat(0, 2, 0, 2), "cpu", ("127.0.0.1", str(served.port)), 30)

    assert why.startswith("nccl failed: ")
    assert "NCCL" in why


@pytest.mark.parametrize(
    ("lacks", "expected"),
    [  # what rank 1 lacks: a GPU, NCCL, or NCCL that works (no machine of the tests has any of them)
        (("", "", ""), ("cuda", "nccl", "")),
        (("no GPU", "", ""), ("cpu", "gloo", "rank 1: no GPU")),
        (("", "no NCCL", ""), ("cuda", "gloo", "rank 1: no NCCL")),
        (("", "", "it hung"), ("cuda", "gloo", "rank 1: it hung")),
        (("no GPU", "no NCCL", "it hung"), ("cpu", "gloo", "rank 1: no GPU")),
    ],
)
def test_what_one_rank_lacks_decides_for_all(monkeypatch, lacks, expected):
    store, seats = dist.HashStore(), [Seat(rank, 3, rank, 3) for rank in range(3)]
    lack = [dict(zip(("gpu", "nccl", "try"), lacks if rank == 1 else ("", "", ""), strict=True)) for rank in range(3)]
    own = threading.local()
    monkeypatch.setattr(
        backend, "_gpu", lambda rank: ("cpu" if lack[rank]["gpu"] else f"cuda:{rank}", lack[rank]["gpu"])
    )
    monkeypatch.setattr(backend, "_nccl_lacks", lambda: lack[own.rank]["nccl"])
    monkeypatch.setattr(backend, "try_backend", lambda *_: lack[own.rank]["try"])

    def choose(seat: Seat) -> backend.Choice:
        own.rank = seat.rank
        return backend.agreed(store, seat, None, ("", ""))

    with ThreadPoolExecutor(3) as pool:
        chosen = list(pool.map(choose, seats))

    kind, by, why = expected
    assert [choice.device for choice in chosen] == (["cpu"] * 3 if kind == "cpu" else ["cuda:0", "cuda:1", "cuda:2"])
    assert {(choice.backend, choice.why) for choice in chosen} == {(by, why)}


@pytest.mark.parametrize(("name", "timeout_s", "complaint"), [("mpi", 1, "nccl or gloo"), (None, 0, "timeout_s")])
def test_what_makes_no_sense_is_refused(name, timeout_s, complaint):
    with pytest.raises(UsageError, match=complaint):
        init(name, timeout_s=timeout_s)
