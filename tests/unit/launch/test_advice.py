"""Scripts as people write them: what is wrong on several machines is named by its line, and nothing else is."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest

from jetq.launch.advice import Advice, advise

ROOT = Path(__file__).resolve().parents[3]


def advice(text: str) -> list[Advice]:
    return advise(["python", "-u", "train.py"], {"train.py": textwrap.dedent(text)}.get)


def lines(text: str) -> list[int]:
    return [one.line for one in advice(text)]


#: The shape of the oldest tutorial: everything of it is wrong here.
TUTORIAL = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)

def demo(rank, world_size):
    setup(rank, world_size)
    model = torch.nn.Linear(2, 2).to(rank)
    torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])

if __name__ == "__main__":
    mp.spawn(demo, args=(4,), nprocs=4, join=True)
"""

GOOD = {
    "LOCAL_RANK": """
        import os, torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank = int(os.environ["RANK"])
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        model = torch.nn.Linear(1, 1).to(local_rank)
        torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank], output_device=local_rank)
        sampler = torch.utils.data.DistributedSampler([], num_replicas=dist.get_world_size(), rank=rank)
        device = torch.device(f"cuda:{local_rank}")
    """,
    "the rank within the node, by division": """
        import torch, torch.distributed as dist
        rank = dist.get_rank()
        device = rank % torch.cuda.device_count()
        torch.cuda.set_device(device)
        model = torch.nn.Linear(1, 1).to(rank % 4)
    """,
    "a variable called rank that is the local one": """
        import os, torch
        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        def train(rank):
            return torch.nn.Linear(1, 1).to(rank)
        train(int(os.environ["LOCAL_RANK"]))
    """,
    "a parameter that nobody passes here": """
        import torch
        def main(rank, world_size):
            torch.cuda.set_device(rank)
    """,
    "one name, twice": """
        import os, torch
        rank = int(os.environ["RANK"])
        rank = rank % 2
        torch.cuda.set_device(rank)
    """,
    "spawns only where no launcher did": """
        import os
        import torch.multiprocessing as mp
        def main(rank): ...
        if "LOCAL_RANK" in os.environ:
            main(int(os.environ["LOCAL_RANK"]))
        else:
            mp.spawn(main, nprocs=4)
    """,
    "defaults for a run by hand": """
        import os
        import torch.distributed as dist
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ["MASTER_PORT"] = os.environ.get("MASTER_PORT", "29500")
        if "MASTER_ADDR" not in os.environ:
            os.environ["MASTER_ADDR"] = "localhost"
        if "RANK" not in os.environ:
            dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500", rank=0, world_size=1)
        else:
            dist.init_process_group("gloo", init_method="env://")
    """,
    "the launcher's address, written out": """
        import os
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method=f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
                                rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    """,
    "MPI's rank within the machine": """
        import torch
        from mpi4py import MPI
        local = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
        torch.cuda.set_device(local.Get_rank())
    """,
    "another spawn, and other things called to": """
        import asyncio, multiprocessing
        import os
        from pool import mp
        rank = int(os.environ["RANK"])
        mp.spawn(print)
        multiprocessing.get_context("spawn").Pool(4)
        print("to", rank, f"rank:{rank}")
        send(to=rank, rank=0, world_size=4)
    """,
    "the rank among all, where it belongs": """
        import os, torch, torch.distributed as dist
        rank = dist.get_rank()
        if rank == 0:
            torch.save({}, f"{rank}.pt")
        dist.broadcast(torch.zeros(1), src=0)
        dist.send(torch.zeros(1), dst=rank)
    """,
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_good_shapes_are_left_alone(text):
    assert advice(text) == []


def test_the_oldest_tutorial_is_taken_apart():
    found = advice(TUTORIAL)

    assert [(one.line, one.what.split()[0]) for one in found] == [(8, "the"), (18, "mp.spawn")]
    assert found[0].what == "the script sets MASTER_ADDR, so the ranks do not find each other (also in line 9)"
    assert str(found[1]) == (
        "train.py, line 18: mp.spawn starts processes of its own in every rank, so there are ranks x processes "
        "of them; "
        "call the function once, with int(os.environ['LOCAL_RANK']): the launcher starts the ranks"
    )


@pytest.mark.parametrize(
    "start",
    [
        "import torch.multiprocessing as mp\nmp.spawn(main, nprocs=2)",
        "import torch\ntorch.multiprocessing.spawn(main, nprocs=torch.cuda.device_count())",
        "from torch import multiprocessing\nmultiprocessing.spawn(main)",
        "from torch.multiprocessing import spawn as go\ngo(main)",
        "import torch.multiprocessing\ntorch.multiprocessing.start_processes(main)",
    ],
)
def test_processes_of_its_own_are_found_by_any_name(start):
    assert lines(start) == [2]


@pytest.mark.parametrize(
    "rank",
    [
        "int(os.environ['RANK'])",
        "int(os.environ.get('RANK', 0))",
        "int(os.getenv('OMPI_COMM_WORLD_RANK', '0'))",
        "dist.get_rank()",
        "MPI.COMM_WORLD.Get_rank()",
        "MPI.COMM_WORLD.rank",
        "comm.Get_rank()",
        "training.init().rank",
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(rank)",
        "model.to(rank)",
        "model.cuda(rank)",
        "model.to(device)",
        "model.to(args.rank)",
        "torch.zeros(1, device=rank)",
        "DistributedDataParallel(model, device_ids=[rank])",
        "torch.device('cuda', rank)",
        "torch.device(f'cuda:{rank}')",
        "torch.load('x', map_location={'cuda:0': f'cuda:{rank}'})",
        "train(1, rank=rank)",
        "Trainer().fit(rank)",
    ],
)
def test_the_rank_among_all_nodes_is_no_number_of_a_gpu(rank, use):
    text = f"""
import os, torch, torch.distributed as dist
from mpi4py import MPI
from jetq import training
comm = MPI.COMM_WORLD
args.rank, seed = {rank}, 1
rank = {rank}
device = rank
def train(steps, rank=0):
    torch.cuda.set_device(rank)
class Trainer:
    def fit(self, number):
        torch.cuda.set_device(number)
{use}
"""

    (found,) = advice(text)

    assert found.line == {"tra": 10, "Tra": 13}.get(use[:3], 14)
    assert "takes the rank among all nodes for the number of a GPU on this one" in found.what


def test_one_advice_stands_for_all_lines_of_its_kind():
    (found,) = advice("import os\nrank = int(os.environ['RANK'])\n" + "".join(f"x{n} = y.to(rank)\n" for n in range(9)))

    assert str(found) == (
        "train.py, line 3: to(... rank ...) takes the rank among all nodes for the number of a GPU on this one "
        "(also in line 4, 5, 6, 7, 8 ...); use int(os.environ['LOCAL_RANK'])"
    )


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("dist.init_process_group('gloo', init_method='tcp://10.0.0.1:2345')", "init_method='tcp://10.0.0.1:2345' is"),
        ("dist.init_process_group('gloo', 'tcp://10.0.0.1:2345')", "init_method='tcp://10.0.0.1:2345' is one"),
        ("dist.init_process_group('gloo', init_method=URL)", "init_method=URL is one fixed address"),
        ("dist.init_process_group('gloo', init_method=f'tcp://node1:{port}')", "init_method=f'tcp://node1:{port}' is"),
        ("TensorPipeRpcBackendOptions(init_method='tcp://localhost:29500')", "init_method='tcp://localhost:29500' is"),
        ("dist.init_process_group('gloo', world_size=4)", "world_size=4 is a fixed number"),
        ("dist.init_process_group('gloo', world_size=SIZE)", "world_size=SIZE is a fixed number"),
        ("dist.init_process_group('gloo', rank=0)", "rank=0 is a fixed number"),
        ("DistributedSampler(data, num_replicas=2, rank=rank)", "num_replicas=2 is a fixed number"),
        ("os.environ['MASTER_ADDR'] = '10.0.0.1'", "the script sets MASTER_ADDR"),
        ("os.environ['MASTER_ADDR'] = socket.gethostname()", "the script sets MASTER_ADDR"),
        ("environ['MASTER_PORT'] = '29500'", "the script sets MASTER_PORT"),
        ("os.environ.update(MASTER_ADDR='a')", "the script sets MASTER_ADDR"),
        ("os.environ.update({'MASTER_PORT': '1'})", "the script sets MASTER_PORT"),
        ("os.putenv('MASTER_PORT', '1')", "the script sets MASTER_PORT"),
    ],
)
def test_what_the_launcher_decides_is_not_written_into_the_script(call, what):
    head = "import os, socket\nimport torch.distributed as dist\nfrom os import environ\nURL, SIZE = 'tcp://h:1', 4\n"

    (found,) = advice(head + call)

    assert found.line == 5
    assert found.what.startswith(what)


def test_numbers_that_mean_nothing_are_left_alone():
    assert lines("import torch.distributed as d\nd.init_process_group('gloo', rank=-1, world_size=-1)") == []


@pytest.mark.parametrize(
    "text",
    ["print 'old'", "def f(:", "x = (" * 5000, "\0", "", "# -*- coding: nonsense -*-", "x = " + "-" * 100_000 + "1"],
)
def test_what_is_no_python_is_left_to_python(text):
    assert advice(text) == []


def test_only_the_script_of_the_command_is_read():
    asked: list[str] = []

    def read(path: str) -> str | None:
        asked.append(path)
        return None

    assert advise(["./a.out", "--input", "x"], read) == []
    assert advise(["python", "src/train.py", "other.py"], read) == []
    assert asked == ["src/train.py"]


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("torchrun --nproc-per-node 4 train.py", "torchrun"),
        ("/usr/bin/mpirun -np 4 python train.py", "mpirun"),
        ("python3 -u -m torch.distributed.launch train.py", "torch.distributed.launch"),
        ("python -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -m pip", ""),
        ("python -m", ""),
        ("python train.py -m torch.distributed.run", "torch.distributed.run"),  # nobody writes that
        ("./torchrun.sh", ""),
        ("echo torchrun", ""),
    ],
)
def test_a_launcher_in_a_launcher_is_named(command, launcher):
    found = advise(command.split(), {}.get)

    assert [(one.line, one.what.split()[0]) for one in found] == ([(0, launcher)] if launcher else [])
    assert all(str(one).startswith(f"the command: {launcher} starts ranks by itself") for one in found)


def test_names_that_lead_in_circles_and_a_large_file_take_little_time():
    circle = "import torch\nrank = rank\na, b = b, a\ndef f(rank): f(rank); torch.cuda.set_device(rank)\n"
    layers = (
        "".join(f"def g{n}(rank):\n" + "".join(f"    g{n + 1}(rank)\n" for _ in range(40)) for n in range(30))
        + "import os, torch\ndef g30(rank): torch.cuda.set_device(rank)\ng0(int(os.environ['RANK']))\n"
    )
    began_s = time.monotonic()

    assert advice(circle) == []
    assert len(advice(layers)) == 1
    assert advice("x = torch.zeros(1).to(device)\n" * 20_000) == []
    assert time.monotonic() - began_s < 20


def test_scripts_of_this_repository_have_nothing_to_be_told():
    for path in [*(ROOT / "jetq").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        assert advise([str(path)], lambda name: Path(name).read_text()) == [], path
