"""Make an analyzer from its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from jetq.errors import UsageError
from jetq.video.analyzers.base import Analyzer
from jetq.video.analyzers.motion import Motion
from jetq.video.analyzers.snapshot import Snapshot

#: The built-in ones.
BUILT_IN: dict[str, type[Motion] | type[Snapshot]] = {"motion": Motion, "snapshot": Snapshot}


@dataclass(frozen=True, slots=True)
class Appetite:
    """Which frames an analyzer wants."""

    warmup: int = 0  # frames before the first one that is reported
    every: int = 1  # 1: each frame


def make(name: str, options: Mapping[str, Any] | None = None) -> Analyzer:
    """Return a fresh analyzer.

    Args:
        name: ``motion``, ``snapshot`` or ``module:Class``.
        options: keyword arguments of the class.

    Raises:
        UsageError: no such analyzer, or it takes no such options.
    """
    maker = BUILT_IN.get(name) or _imported(name)
    try:
        analyzer = maker(**dict(options or {}))
    except TypeError as exc:
        raise UsageError(f"analyzer {name!r} cannot be made with {dict(options or {})}: {exc}") from exc
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


def _imported(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, BUILT_IN, n=1, cutoff=0.0)
        raise UsageError(f"no analyzer is called {name!r}; did you mean {near[0]!r}? Own ones are named module:Class")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as exc:
        raise UsageError(f"analyzer {name!r}: module {exc.name!r} cannot be found; is it on PYTHONPATH?") from exc
    except AttributeError as exc:
        raise UsageError(f"analyzer {name!r}: module {module!r} has no {attribute!r}") from exc
