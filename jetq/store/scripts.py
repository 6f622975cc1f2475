"""Load the Lua scripts, each with the shared pieces it uses, and run them by hash."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: The pieces that more than one script uses (``_base.lua``, ...), each after those it builds on. A call pays for every
#: piece of its script, so a script names its own in its header: ``-- uses  base room``.
PIECES = ("base", "sure", "leads", "room", "index", "scarce", "place", "ending", "parts", "lose", "failing")
NAMES = (
    "publish",
    "claim",
    "finish",
    "settle",
    "lost",
    "drop",
    "misfit",
    "put_back",
    "again",
    "cancel",
    "due",
    "join",
    "beat",
    "leave",
    "lead",
    "survey",
    "judge",
    "heal",
    "untold",
    "reassert",
    "resynced",
    "shift",
    "drain",
    "resume",
    "evict",
    "forget",
    "audit",
    "submit_gang",
    "reserve",
    "meet",
    "stop_gang",
    "end_gang",
    "foresee",
    "name_blob",
    "tell_lines",
    "submit_stream",
    "move_stream",
    "end_stream",
    "tell_seat",
    "weigh",
)
_USES = re.compile(r"^-- uses +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One script as it is sent."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return a script by name, its pieces included."""
    text = source(name)
    whole = "".join(source(f"_{piece}") for piece in PIECES if piece in uses(text)) + text
    return Script(name, whole, hashlib.sha1(whole.encode()).hexdigest())


def source(name: str) -> str:
    """Return the text of one Lua file."""
    return (files("jetq.store") / "lua" / f"{name}.lua").read_text("utf-8")


def uses(text: str) -> frozenset[str]:
    """Return the pieces that a Lua file names in its header; all of them where it names none."""
    named = _USES.search(text)
    return frozenset(named[1].split() if named else PIECES)
