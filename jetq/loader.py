"""Find the home, import its tasks and the user's beside them, and say in one line what is wrong with them."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol

from jetq.errors import UsageError

#: The package of tasks in the home; a user's ``tasks/`` folder becomes part of it.
TASKS = "tasks"
#: Where children of this process find the user's folder again.
APP_DIR = "JETQ_APP_DIR"
_JETQ = Path(__file__).resolve().parent


class TaskLike(Protocol):
    """What the loader looks at in a registered task."""

    rate_limit: Any


class AppLike(Protocol):
    """What the loader looks at in a Celery app."""

    tasks: Mapping[str, TaskLike]
    conf: Any
    loader: Any


def home() -> Path:
    """Return the folder that holds the built-in ``tasks/``: inside an installed jetq, else the checkout around it.

    Raises:
        UsageError: neither is there.
    """
    for folder in (_JETQ / "_home", _JETQ.parent):
        if (folder / TASKS / "__init__.py").is_file():
            return folder
    raise UsageError(f"no built-in tasks beside {_JETQ}; install jetq again, from its wheel or its checkout")


def user_tasks(app_dir: Path) -> Path:
    """Return the ``tasks/`` folder of a user's folder.

    Raises:
        UsageError: there is none, or one of its modules has the name of another.
    """
    folder = app_dir.expanduser().resolve() / TASKS
    if not folder.is_dir():
        raise UsageError(f"--app-dir {app_dir} has no {TASKS}/ folder; make an example with `jetq init DIR`")
    built_in = home() / TASKS
    for name in sorted(_names([built_in]) & _names([folder])) if folder != built_in else ():
        raise UsageError(f"{folder / name} and {built_in / name} would both be {TASKS}.{name}; rename yours")
    return folder


def load(app_dir: Path | None = None) -> list[str]:
    """Import every module of the home's tasks, and of the user's. Returns their names; children load the same.

    Raises:
        UsageError: no such folder, the same name twice, or a module that cannot be imported; the message says why.
    """
    base = home()
    folders = [base / TASKS]
    if app_dir is not None and (mine := user_tasks(app_dir)) not in folders:
        folders.append(mine)
    _put_first(base, *(folder.parent for folder in folders[1:]))
    _drop_foreign(folders[0])
    package = _import(TASKS)
    _check_place(package, [base])
    for folder in folders[1:]:
        if str(folder) not in package.__path__:
            package.__path__.append(str(folder))
    _export([base, *(folder.parent for folder in folders[1:])], app_dir)
    return _load_below(TASKS, [str(folder) for folder in folders])


def load_app(spec: str, app_dir: Path | None = None) -> Any:
    """Return the Celery app that ``pkg.mod:name`` is, found in ``app_dir`` or the current folder too.

    Raises:
        UsageError: no such module or name; the message says which.
    """
    module_name, found, name = spec.partition(":")
    if not (module_name and found and name):
        raise UsageError(f"--app {spec!r}: write PACKAGE.MODULE:NAME, for example shop.celery:app")
    _put_first(*_home_first(), (app_dir or Path.cwd()).resolve())
    module = _import(module_name)
    app = getattr(module, name, None)
    if app is None or not hasattr(app, "tasks"):
        what = "holds no" if app is None else "is no Celery app:"
        raise UsageError(f"--app {spec}: {module_name} {what} {name}; name the variable that holds your Celery app")
    return app


def load_included(app: AppLike) -> None:
    """Import what the app's own ``include``, ``imports`` and ``autodiscover_tasks`` name, as its worker would later.

    Raises:
        UsageError: one of them cannot be imported; the message says why.
    """
    for name in app.loader.default_modules:
        _import(name)
    with _Blame("found by autodiscover_tasks"):
        app.loader.import_default_modules()


def check(app: AppLike) -> list[str]:
    """Return the names of an app's tasks, Celery's own left out, after checking that jetq can run them.

    Raises:
        UsageError: a task with a rate limit; the ledger would hold its slot while Celery holds it back.
    """
    names = sorted(name for name in app.tasks if not name.startswith("celery."))
    if app.conf.task_default_rate_limit:
        raise UsageError("task_default_rate_limit cannot be kept across nodes; remove it from the app's settings")
    for name in names:
        task = app.tasks[name]
        options = getattr(task, "jetq", None) or {}
        if task.rate_limit and options.get("ledger", True) is not False:
            raise UsageError(
                f"task {name} has rate_limit={task.rate_limit!r}, which cannot be kept across nodes; remove it, "
                f'or keep the task out of the ledger with jetq={{"ledger": False}}'
            )
    return names


def wants_plain(app: AppLike) -> bool:
    """Tell whether a task stays out of the ledger, and so needs a lane of plain Celery."""
    return any((getattr(task, "jetq", None) or {}).get("ledger") is False for task in app.tasks.values())


class _Blame:
    """Turn whatever a module raises while it is imported into one line. It runs a user's code: anything may come."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None or isinstance(exc, UsageError) or not isinstance(exc, Exception | SystemExit):
            return
        raise UsageError(self._line(exc)) from exc

    def _line(self, exc: BaseException) -> str:
        if isinstance(exc, ModuleNotFoundError) and exc.name:
            if self._module == exc.name or self._module.startswith(exc.name + "."):
                return f"there is no module {exc.name}; looked in {', '.join(sys.path[:3])} and the installed packages"
            return f"module {self._module} needs {exc.name}, which is not installed here: install it on this node"
        where = _last_line_in(exc, self._module)
        return f"module {self._module} raises on import{where}: {type(exc).__name__}: {exc}".splitlines()[0]


def _last_line_in(exc: BaseException, module: str) -> str:
    if isinstance(exc, SyntaxError):
        return f" (line {exc.lineno})"
    trace, line = exc.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == module:
            line = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    return line


def _import(name: str) -> ModuleType:
    with _Blame(name):
        return importlib.import_module(name)


def _load_below(package: str, folders: list[str]) -> list[str]:
    names = []
    for found in pkgutil.iter_modules(folders):
        name = f"{package}.{found.name}"
        module = _import(name)
        _check_place(module, [Path(folder) for folder in folders])
        names.append(name)
        if found.ispkg:
            names += _load_below(name, list(module.__path__))
    return sorted(names)


def _check_place(module: ModuleType, folders: Iterable[Path]) -> None:
    """Refuse a module that came from elsewhere: something else of that name was imported first."""
    if module.__file__ is None:
        return
    file = Path(module.__file__).resolve()
    if not any(file.is_relative_to(folder.resolve()) for folder in folders):
        raise UsageError(f"module {module.__name__} came from {file}, not from {', '.join(map(str, folders))}")


def _drop_foreign(folder: Path) -> None:
    """Forget a ``tasks`` package of somebody else that was imported before ours."""
    had = sys.modules.get(TASKS)
    if had is not None and (had.__file__ is None or not Path(had.__file__).resolve().is_relative_to(folder.resolve())):
        raise UsageError(f"another package called {TASKS} was imported first, from {had.__file__ or had.__path__}")


def _names(folders: Iterable[Path]) -> set[str]:
    return {found.name for found in pkgutil.iter_modules([str(folder) for folder in folders])}


def _home_first() -> list[Path]:
    """Return the home if it is in front already, so that what is put first goes behind it."""
    return [home()] if sys.path[:1] == [str(home())] else []


def _put_first(*folders: Path) -> None:
    wanted = [str(folder) for folder in folders]
    sys.path[:] = [*wanted, *(entry for entry in sys.path if entry not in wanted)]
    importlib.invalidate_caches()


def _export(folders: Iterable[Path], app_dir: Path | None) -> None:
    """Let children that start afresh (a spawn pool) import the same modules."""
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    wanted = [str(folder) for folder in folders]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(part for part in before if part not in wanted)])
    if app_dir is not None:
        os.environ[APP_DIR] = str(app_dir.expanduser().resolve())
