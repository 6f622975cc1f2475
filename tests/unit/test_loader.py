"""The loader: which tasks a node has, and one clear line for everything that can be wrong with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jetq import loader
from jetq.errors import UsageError

ROOT = Path(loader.__file__).resolve().parent.parent
#: Loads in a fresh interpreter, as a lane does, then once more in a child that starts afresh, as a spawn pool does.
LOAD = """
import json, os, subprocess, sys
from pathlib import Path
sys.path.append(os.environ["JETQ_ROOT_OF_TEST"])
from jetq import loader
from jetq.errors import UsageError
try:
    names = loader.load(Path(sys.argv[1]) if sys.argv[1] else None)
except UsageError as exc:
    sys.exit(str(exc))
child = subprocess.run([sys.executable, "-c", "import sys; del sys.path[0]; from importlib import import_module as i; "
    "print([i(n).__file__ for n in sys.argv[1:]])", *names], capture_output=True, text=True, check=True)
print(json.dumps([names, eval(child.stdout)]))
"""


def load(app_dir: Path | None, cwd: Path) -> tuple[list[str], list[str]]:
    """Return the names and the files a child found them in; raise what the loader says."""
    env = {**os.environ, "JETQ_ROOT_OF_TEST": str(ROOT)}
    argv = [sys.executable, "-c", LOAD, str(app_dir or "")]
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise UsageError(done.stderr.strip())
    names, files = json.loads(done.stdout)
    return names, files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks").mkdir()
    return tmp_path


def test_the_home_is_the_checkout_around_jetq():
    assert loader.home() == ROOT


def test_built_in_tasks_load_without_a_users_folder(tmp_path):
    names, files = load(None, tmp_path)

    assert "tasks.demo" in names
    assert {Path(file).parent for file in files} == {ROOT / "tasks"}


def test_a_users_modules_load_beside_the_built_in_ones_in_children_too(folder):
    (folder / "tasks" / "yard.py").write_text("import yardlib")
    (folder / "tasks" / "deep").mkdir()
    (folder / "tasks" / "deep" / "__init__.py").write_text("")
    (folder / "tasks" / "deep" / "well.py").write_text("")
    (folder / "yardlib.py").write_text("")

    names, files = load(folder, folder)

    assert {"tasks.demo", "tasks.yard", "tasks.deep", "tasks.deep.well"} <= set(names)
    assert str(folder / "tasks" / "yard.py") in files


def test_the_home_wins_over_a_tasks_package_in_the_current_folder(folder):
    (folder / "tasks" / "__init__.py").write_text("raise SystemExit('the wrong tasks')")

    names, _ = load(None, folder)

    assert "tasks.demo" in names


def test_the_homes_own_folder_may_be_given_as_the_users(tmp_path):
    names, _ = load(ROOT, tmp_path)

    assert names == load(None, tmp_path)[0]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("demo", "", "would both be tasks.demo; rename yours"),
        ("yard", "\nimport no_such_thing", "module tasks.yard needs no_such_thing, which is not installed here"),
        ("yard", "import tasks.nowhere", "module tasks.yard needs tasks.nowhere"),
        (
            "yard",
            "\n\nraise ValueError('five\\nlines')",
            "module tasks.yard raises on import (line 3): ValueError: five",
        ),
        ("yard", "def broken(:", "module tasks.yard raises on import (line 1): SyntaxError"),
        ("yard", "import sys; sys.exit('no')", "module tasks.yard raises on import (line 1): SystemExit: no"),
    ],
)
def test_a_bad_module_is_one_line_that_names_it(folder, name, text, line):
    (folder / "tasks" / f"{name}.py").write_text(text)

    with pytest.raises(UsageError) as caught:
        load(folder, folder)

    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_tasks_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"has no tasks/ folder; make an example with `jetq init DIR`"):
        loader.user_tasks(tmp_path)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("shop", "write PACKAGE.MODULE:NAME"),
        ("shop:nothing", "holds no nothing"),
        ("shop:word", "is no Celery app: word"),
        ("no_such_shop.celery:app", "there is no module no_such_shop"),
        ("broken_shop:app", "module broken_shop needs no_such_thing"),
    ],
)
def test_a_bad_app_is_one_line(tmp_path, monkeypatch, spec, line):
    (tmp_path / "shop.py").write_text("word = 'x'")
    (tmp_path / "broken_shop.py").write_text("import no_such_thing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("shop", "broken_shop"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    with pytest.raises(UsageError, match=line):
        loader.load_app(spec)


def app(default_limit: str | None = None, **tasks: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(tasks=tasks, conf=SimpleNamespace(task_default_rate_limit=default_limit))


def test_checked_names_leave_celerys_own_out():
    tasks = {"yard.count": SimpleNamespace(rate_limit=None), "celery.chord": SimpleNamespace(rate_limit=None)}

    assert loader.check(app(**tasks)) == ["yard.count"]


def test_a_rate_limit_on_a_ledgered_task_is_refused():
    limited = SimpleNamespace(rate_limit="3/m")

    with pytest.raises(UsageError, match=r"task slow has rate_limit='3/m'"):
        loader.check(app(slow=limited))


def test_a_rate_limit_on_plain_work_is_celerys_own_business():
    limited = SimpleNamespace(rate_limit="3/m", jetq={"ledger": False})

    assert loader.check(app(slow=limited)) == ["slow"]


def test_a_default_rate_limit_is_refused():
    with pytest.raises(UsageError, match="task_default_rate_limit"):
        loader.check(app(default_limit="1/s"))
