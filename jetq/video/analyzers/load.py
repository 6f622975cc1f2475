"""Make an analyzer from its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from jetq.errors import UsageError
from jetq.video.analyzers.base import Analyzer

#: The built-in ones, loaded when they are asked for: not every node has what all of them need.
BUILT_IN = {
    "motion": "jetq.video.analyzers.motion:Motion",
    "snapshot": "jetq.video.analyzers.snapshot:Snapshot",
    "onnx": "jetq.video.analyzers.onnx:Onnx",
}
#: The extra that brings what a built-in one needs, by its module.
_EXTRAS = {"onnxruntime": "onnx"}
#: Where an own one is looked for.
_WHERE = "its file has to lie in the folder of --app-dir, or of PYTHONPATH, on each node and where it is sent from"


@dataclass(frozen=True, slots=True)
class Appetite:
    """Which frames an analyzer wants."""

    warmup: int = 0  # frames before the first one that is reported
    every: int = 1  # 1: each frame


def make(name: str, options: Mapping[str, Any] | None = None) -> Analyzer:
    """Return a fresh analyzer.

    Args:
        name: ``motion``, ``snapshot``, ``onnx`` or ``module:Class``.
        options: keyword arguments of the class.

    Raises:
        UsageError: no such analyzer, it needs what is not installed here, or it takes no such options.
    """
    maker = _found(BUILT_IN.get(name, name))
    if not callable(maker):
        raise UsageError(f"analyzer {name!r} is no class; name it as module:Class")
    try:
        analyzer = maker(**dict(options or {}))
    except TypeError as exc:
        raise UsageError(f"analyzer {name!r} cannot be made with {dict(options or {})!r:.200}: {exc}") from exc
    if not isinstance(analyzer, Analyzer):
        raise UsageError(f"analyzer {name!r} needs the methods start(), frame(picture, t_s) and stop()")
    return analyzer


def appetite(analyzer: Analyzer) -> Appetite:
    """Return which frames an analyzer wants.

    Raises:
        UsageError: its ``warmup`` or ``every`` is out of range.
    """
    warmup, every = getattr(analyzer, "warmup", 0), getattr(analyzer, "every", 1)
    if not (isinstance(warmup, int) and isinstance(every, int) and warmup >= 0 and every >= 1):
        raise UsageError(f"{type(analyzer).__name__}: warmup must be 0 or more and every 1 or more, both whole numbers")
    return Appetite(warmup, every)


def _found(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        near = difflib.get_close_matches(name, BUILT_IN, n=1, cutoff=0.0)
        raise UsageError(f"no analyzer is called {name!r}; did you mean {near[0]!r}? Own ones are named module:Class")
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as exc:
        missing = exc.name or ""
        if missing in _EXTRAS:
            extra = _EXTRAS[missing]
            raise UsageError(f"this needs {missing}: install jetq with its `{extra}` extra on this machine") from exc
        if module == missing or module.startswith(f"{missing}."):
            raise UsageError(f"analyzer {name!r}: module {missing!r} cannot be found; {_WHERE}") from exc
        raise UsageError(f"analyzer {name!r} needs the module {missing!r}; install it on this machine, too") from exc
    except ImportError as exc:
        raise UsageError(f"analyzer {name!r} cannot be loaded: {exc}") from exc
    except SyntaxError as exc:
        raise UsageError(f"analyzer {name!r}: {exc.filename}, line {exc.lineno}: {exc.msg}; mend that") from exc
    if not hasattr(loaded, attribute):
        raise UsageError(f"analyzer {name!r}: module {module!r} ({loaded.__file__}) has no {attribute!r}")
    return getattr(loaded, attribute)
