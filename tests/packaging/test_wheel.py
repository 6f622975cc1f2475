"""The wheel as a stranger gets it: everything is in it, and what is in it runs without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.xdist_group("packaging")


def run(*argv: object, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run without the checkout in sight; a failure shows what was written."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_CURRENT_TEST")} | environ
    done = subprocess.run([str(a) for a in argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, so that no build folder of an earlier run helps."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, folder / "source", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a fresh venv. What it depends on is borrowed from this one by a path line."""
    venv = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv)
    inside = venv / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", inside, "install", "-q", "--no-deps", "--no-index", wheel, cwd=venv)
    site = run(inside, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=venv).stdout.strip()
    (Path(site) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return inside


def test_the_wheel_holds_the_whole_library_and_its_home(wheel: Path):
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.relative_to(ROOT) for path in (ROOT / "jetq").rglob("*") if path.is_file()}
    wanted = {path.as_posix() for path in wanted if "__pycache__" not in path.parts}
    wanted |= {
        f"jetq/_home/{path.relative_to(ROOT)}" for top in ("tasks", "workers") for path in (ROOT / top).glob("*.py")
    }

    assert wanted <= inside
    assert not {name.split("/")[0] for name in inside if "dist-info" not in name} - {"jetq"}


def test_the_library_comes_from_the_wheel(python: Path, tmp_path: Path):
    where = run(python, "-c", "import jetq; print(jetq.__file__)", cwd=tmp_path).stdout

    assert where.startswith(str(python.parents[1]))


def test_every_lua_file_is_there_and_readable(python: Path, tmp_path: Path):
    files = "__import__('importlib.resources').resources.files('jetq.store.lua').iterdir()"
    code = f"[print(f.name, len(f.read_text())) for f in {files}]"
    shipped = dict(line.split() for line in run(python, "-c", code, cwd=tmp_path).stdout.splitlines() if ".lua" in line)

    assert set(shipped) == {path.name for path in (ROOT / "jetq" / "store" / "lua").glob("*.lua")}
    assert all(int(size) > 100 for size in shipped.values())


def test_the_command_answers(python: Path, tmp_path: Path):
    jetq = python.with_name("jetq")

    assert "0.1.0" in run(jetq, "--version", cwd=tmp_path).stdout
    assert "worker" in run(jetq, "--help", cwd=tmp_path).stdout
    assert "0.1.0" in run(python, "-m", "jetq", "--version", cwd=tmp_path).stdout


def test_a_node_starts_from_the_wheel_and_runs_a_built_in_task(python: Path, tmp_path: Path):
    jetq = python.with_name("jetq")
    here = {"JETQ_DIR": str(tmp_path / "cluster")}

    try:
        run(jetq, "up", "-d", "--nodes", "1", "--slots", "1", cwd=tmp_path, **here)
        done = run(jetq, "submit", "demo.nap", "0.1", "--wait", "--json", cwd=tmp_path, **here)
        nodes = json.loads(run(jetq, "node", "list", "--json", cwd=tmp_path, **here).stdout)
    finally:
        run(jetq, "down", cwd=tmp_path, **here)

    assert json.loads(done.stdout)["state"] == "SUCCEEDED"
    assert [node["state"] for node in nodes] == ["up"]
