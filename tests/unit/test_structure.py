"""The shape of the source: what the linters cannot say. Each rule names the file and line that breaks it."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ("jetq", "tasks", "workers")
#: Import statements inside functions: the composition root, and what runs in the ranks (torch).
LATE_IMPORTS = ("jetq/wire.py", "jetq/training/")
#: Import by name: lazy public names, the table of verbs, a user's tasks and app, an analyzer `module:Class`,
#: the libraries that open cameras.
IMPORTS_BY_NAME = {
    "jetq/__init__.py",
    "jetq/cli/__init__.py",
    "jetq/loader.py",
    "jetq/video/__init__.py",
    "jetq/video/live/__init__.py",
    "jetq/video/analyzers/load.py",
    "jetq/video/capture/chain.py",
}
#: The loop runner, the one place that swallows everything so that a loop outlives its turn. (A handler that ends in a
#: bare `raise` swallows nothing.) And who calls an analyzer, which is anybody's code: its stream goes on.
CATCH_ALL = {"jetq/service/loop.py", "jetq/video/live/runner.py"}
#: A file past this has a seam; a function past this does not fit on a screen.
FILE_LINES, FUNCTION_LINES = 320, 60


def sources(*tops: str) -> Iterator[tuple[str, ast.Module, int]]:
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text()
            yield path.relative_to(ROOT).as_posix(), ast.parse(text), text.count("\n")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_imports_stand_at_the_top():
    late = [
        f"{name}:{inner.lineno}"
        for name, tree, _ in sources(*LIBRARY)
        for function in functions(tree)
        for inner in ast.walk(function)
        if not name.startswith(LATE_IMPORTS) and isinstance(inner, ast.Import | ast.ImportFrom)
    ]

    assert not late


def test_modules_are_imported_by_name_only_where_names_are_the_point():
    by_name = [
        f"{name}:{node.lineno}"
        for name, tree, _ in sources(*LIBRARY)
        for node in ast.walk(tree)
        if name not in IMPORTS_BY_NAME
        and isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("import_module", "importlib.import_module", "__import__")
    ]

    assert not by_name


def test_only_the_loop_runner_catches_everything():
    broad = [
        f"{name}:{node.lineno}"
        for name, tree, _ in sources(*LIBRARY)
        for node in ast.walk(tree)
        if name not in CATCH_ALL and isinstance(node, ast.ExceptHandler) and _catches_all(node)
    ]

    assert not broad


def _catches_all(handler: ast.ExceptHandler) -> bool:
    caught = "bare" if handler.type is None else ast.unparse(handler.type)
    passes_on = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    return bool(re.search(r"\b(bare|Exception|BaseException)\b", caught)) and not passes_on


def test_a_function_fits_on_a_screen_and_a_file_has_one_duty():
    long = [f"{name}: {lines} lines" for name, _, lines in sources(*LIBRARY, "benchmarks") if lines > FILE_LINES]
    long += [
        f"{name}:{function.lineno} {function.name}"
        for name, tree, _ in sources(*LIBRARY, "benchmarks")
        for function in functions(tree)
        if (function.end_lineno or function.lineno) - function.lineno >= FUNCTION_LINES
    ]

    assert not long


def test_setup_cfg_names_every_package_and_ships_what_is_not_python():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    named = set(config["options"]["packages"].split())
    there = {path.parent.relative_to(ROOT).as_posix().replace("/", ".") for path in (ROOT / "jetq").rglob("*.py")}
    others = {path for path in (ROOT / "jetq").rglob("*.*") if path.suffix not in (".py", ".pyc")}
    shipped = {
        path
        for package, patterns in config["options.package_data"].items()
        for pattern in patterns.split()
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }

    assert there <= named
    assert others == shipped
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_the_command_line_loads_celery_only_to_send_or_run_work():
    code = (
        "import importlib, sys; from jetq.cli import VERBS; import jetq.wire, jetq.client\n"
        "for verb in VERBS.values(): importlib.import_module(verb.module)\n"
        "print([name for name in ('celery', 'kombu', 'cv2', 'av', 'numpy', 'flower') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("what", "pattern", "places"),
    [  # spelt so that no pattern finds itself
        ("left open", r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b|NotImplemente[d]Error", "."),
        ("a test that may not run", r"pytest\.ski[p]|mark\.ski[p]|ski[p]if|xfai[l]", "tests"),
        ("a sleep in a test", r"\btime\.slee[p]\(", "tests/**.py,:!tests/**_tasks.py"),  # a task may nap
        ("a path of one machine", r"(?<![\w.-])/(wor[k]|roo[t]|far[m]|tmp/ven[v])/", "."),
        ("a setting of a package index", r"--(extra-)?inde[x]-url|registr[y]=|^deb htt[p]", "."),
        ("the host of a registry", r"pythonhoste[d]\.org|\bpyp[i]\.(org|python)|deb\.debia[n]", "."),
        ("the other project of that name", r"pip3? install (-U )?jet[q]\b(?!-)", "."),
    ],
)
def test_the_repository_holds_nothing_of(what, pattern, places):
    found = subprocess.run(
        ["git", "grep", "-nIP", "-e", pattern, "--", *places.split(",")], cwd=ROOT, capture_output=True, text=True
    )

    assert found.returncode in (0, 1), found.stderr
    assert not found.stdout, what


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("jetq/stray.py", "", "jetq.stray"),
        ("jetq/clock.py", "import jetq.client\n", "jetq.clock is not allowed to import jetq.client"),
        ("jetq/client.py", "import redis\n", "jetq is not allowed to import redis"),
        ("jetq/client.py", "import celery\n", "jetq is not allowed to import celery"),
        ("jetq/store/keys.py", "import jetq.broker\n", "jetq.broker"),
        ("jetq/broker/fit.py", "import subprocess\n", "jetq is not allowed to import subprocess"),
        ("jetq/client.py", "import tasks\n", "jetq is not allowed to import tasks"),
    ],
)
def test_the_floor_check_refuses(tmp_path, name, text, complaint):
    for top in LIBRARY:
        shutil.copytree(ROOT / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    (tmp_path / name).write_text(text)

    checker = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([checker, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert found.returncode == 1
    assert complaint in found.stdout
