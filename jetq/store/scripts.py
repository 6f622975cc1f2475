"""Load the Lua scripts and run them by hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: Prepended to every script: the pieces that more than one of them needs.
_PRELUDE = "_ledger"
NAMES = (
    "publish",
    "claim",
    "finish",
    "settle",
    "lost",
    "drop",
    "put_back",
    "again",
    "cancel",
    "due",
    "join",
    "beat",
    "leave",
)


@dataclass(frozen=True, slots=True)
class Script:
    """One script as it is sent."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return a script by name, prelude included."""
    folder = files("jetq.store") / "lua"
    text = (folder / f"{_PRELUDE}.lua").read_text("utf-8") + (folder / f"{name}.lua").read_text("utf-8")
    return Script(name, text, hashlib.sha1(text.encode()).hexdigest())
