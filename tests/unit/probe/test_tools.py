"""What a node says it has for ranks."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jetq.probe import tools


def program(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def test_this_node_has_what_its_tests_run_on():
    assert tools.python() == ".".join(map(str, sys.version_info[:3]))
    assert tools.open_mpi() == 5
    assert (tools.torch() is None) == (importlib.util.find_spec("torch") is None)
    assert (tools.mem_free_bytes() or 0) > 0
    assert (tools.disk_free_bytes(Path("/")) or 0) > 0
    assert tools.disk_free_bytes(Path("/no/such/folder")) is None


def test_the_version_of_torch_is_found_without_loading_it():
    asks = "import sys; from jetq.probe import tools; tools.torch(); sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", asks], timeout=60).returncode == 0


def test_the_path_of_ranks_begins_at_this_python():
    assert tools.search_path({"PATH": "/usr/bin"}) == f"{Path(sys.executable).parent}:/usr/bin"


def test_where_path_names_this_python_its_order_is_kept():
    path = f"/usr/bin:{Path(sys.executable).parent}"

    assert tools.search_path({"PATH": path}) == path


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ("mpirun (Open MPI) 4.1.4", 4),
        ("mpirun (Open MPI) 5.0.11rc1", 5),
        ("mpirun.real (OpenRTE) 4.1.4", None),
        ("HYDRA build details:\n    Version: 4.1", None),
        ("", None),
    ],
)
def test_open_mpi_is_known_by_what_its_mpirun_says(tmp_path, says, major):
    program(tmp_path / "mpirun", f"echo '{says}'; echo warning >&2")

    assert tools.open_mpi(str(tmp_path)) == major


def test_an_mpirun_is_asked_once_until_it_changes(tmp_path):
    asked = tmp_path / "asked"
    mpirun = program(tmp_path / "mpirun", f"echo x >> {asked}; echo 'mpirun (Open MPI) 4.1.4'")
    found = [tools.open_mpi(str(tmp_path)) for _ in range(3)]
    program(mpirun, "echo 'mpirun (Open MPI) 5.0.1'")
    os.utime(mpirun, ns=(1, 1))

    assert found == [4, 4, 4]
    assert asked.read_text() == "x\n"
    assert tools.open_mpi(str(tmp_path)) == 5


def test_an_mpirun_that_hangs_counts_as_none(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "MPIRUN_S", 0.3)
    program(tmp_path / "mpirun", "sleep 100")
    began_s = time.monotonic()

    assert tools.open_mpi(str(tmp_path)) is None
    assert time.monotonic() - began_s < 10


def test_an_mpirun_whose_child_keeps_its_output_open_is_still_read(tmp_path):
    program(tmp_path / "mpirun", "echo 'mpirun (Open MPI) 4.1.4'; sleep 5 &")
    began_s = time.monotonic()

    assert tools.open_mpi(str(tmp_path)) == 4
    assert time.monotonic() - began_s < 4


def test_a_clock_is_compared_at_one_moment():
    assert tools.skew_s(100.0, 103.0) == 3.0
    assert tools.skew_s(100.0, 10.0) == -90.0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("python", None),
        ("/bin/sh", None),
        ("./run.sh", None),
        ("bin/tool", None),
        ("tool", "tool is not installed (sought on PATH); install it there, or send it in the workdir"),
        ("run.sh", "run.sh is not on PATH; it is a file of the workdir: write ./run.sh"),
        ("./plain.sh", "./plain.sh is not executable; `chmod +x` it before it is sent, or name its interpreter"),
        ("./none.sh", "./none.sh is not there in the workdir; send it in the workdir, and write its path in there"),
        ("/no/such", "/no/such is not there on this node; send it in the workdir, and write its path in there"),
        ("./bin", "./bin is no file; name a program"),
    ],
)
def test_a_command_that_cannot_be_started_is_explained(tmp_path, name, why):
    program(tmp_path / "run.sh", "true")
    program(tmp_path / "plain.sh", "true", 0o644)
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "tool", "true")

    assert tools.why_not(name, tmp_path) == why


def test_an_interpreter_that_is_not_there_is_named(tmp_path):
    for name, first in {
        "a": "#!/no/such/python3 -u",
        "b": "#!/bin/sh\r",
        "c": "#!",
        "d": "echo",
        "e": "#! /bin/sh -e",
    }.items():
        (tmp_path / name).write_text(f"{first}\ntrue\n", newline="")
        (tmp_path / name).chmod(0o755)

    assert tools.why_not("./a", tmp_path) == (
        "./a names the interpreter /no/such/python3 in its first line, which is not there on this node"
    )
    assert "line ends of Windows" in (tools.why_not("./b", tmp_path) or "")
    assert [tools.why_not(f"./{name}", tmp_path) for name in "cde"] == [None] * 3


@pytest.mark.parametrize(("machine", "made_for"), [(183, "aarch64"), (62, "x86_64"), (243, None)])
def test_a_program_for_another_processor_is_refused(tmp_path, machine, made_for):
    head = bytearray(Path("/bin/sh").read_bytes()[:256])
    head[18:20] = machine.to_bytes(2, "little")
    (tmp_path / "prog").write_bytes(head)
    (tmp_path / "prog").chmod(0o755)
    here = platform.machine()

    why = tools.why_not("./prog", tmp_path)

    other = made_for not in (None, here)
    assert why == (f"./prog is a program for {made_for}, but this node is {here}; compile it there" if other else None)


def test_a_container_has_what_its_limit_leaves(tmp_path):
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("900000\n")
    (group / "memory.stat").write_text("anon 700000\ninactive_file 50000\n")
    left = tools.mem_free_bytes(tmp_path)
    (group / "memory.max").write_text("max\n")

    assert left == 150_000
    assert (tools.mem_free_bytes(tmp_path) or 0) > 10_000_000


def test_a_relative_folder_of_path_is_below_the_workdir(tmp_path):
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "tool", "true")

    assert tools.why_not("tool", tmp_path, "bin:/usr/bin") is None
