"""Which files of a folder are left out: the rules of ``.gitignore`` and ``.jetqignore``, as git reads them.

A rule counts for the folder of its file and all below. The last rule that matches decides: those of a deeper folder
come after those of a higher one, and in one folder ``.jetqignore`` after ``.gitignore``; ``!`` takes a file in again.
Nothing below a folder that is left out is ever looked at. A test compares all this with git itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Later ones have the last word.
RULE_FILES = (".gitignore", ".jetqignore")
#: Never packed: they are large, and of no use on a node.
ALWAYS_OUT = frozenset({".git", ".hg", ".svn", "__pycache__"})
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "space": r" \t\r\n\v\f",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a rule file."""

    base: str  # folder of the file, "" or ending with a slash
    pattern: re.Pattern[str]
    takes_in: bool  # a line that begins with !
    folders_only: bool
    by_name: bool  # compared with the last part of a path alone

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether the rule speaks of a path below its folder."""
        if self.folders_only and not is_folder:
            return False
        return self.pattern.fullmatch(path.rpartition("/")[2] if self.by_name else path[len(self.base) :]) is not None


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules that count in one folder."""

    rules: tuple[Rule, ...] = ()

    def inside(self, folder: Path, base: str) -> Rules:
        """Return the rules that count in ``folder``, whose path below the root is ``base`` ("" or ending with a slash).

        Raises:
            OSError: a rule file cannot be read.
        """
        own: list[Rule] = []
        for name in RULE_FILES:
            file = folder / name
            if file.is_file() and not file.is_symlink():
                text = file.read_bytes().decode("utf-8-sig", "surrogateescape")
                own += _rules(text, base)
        return Rules((*self.rules, *own)) if own else self

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a path below the root is left out; all folders above it are known to be in."""
        if path.rpartition("/")[2] in ALWAYS_OUT:
            return True
        for rule in reversed(self.rules):
            if rule.matches(path, is_folder=is_folder):
                return not rule.takes_in
        return False


def _rules(text: str, base: str) -> Iterator[Rule]:
    for line in text.split("\n"):
        written = _without_trailing_spaces(line.removesuffix("\r"))
        if not written or written.startswith("#"):
            continue
        takes_in = written.startswith("!")
        body = written.removeprefix("!")
        folders_only = body.endswith("/")
        body = body.removesuffix("/")
        by_name = "/" not in body
        expression = _expression(body.removeprefix("/"))
        if expression is not None:
            yield Rule(base, expression, takes_in, folders_only, by_name)


def _without_trailing_spaces(line: str) -> str:
    """Return a line without the spaces at its end; one after a backslash stays."""
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and len(bare) < len(line) else bare


def _expression(glob: str) -> re.Pattern[str] | None:
    """Return what a glob matches; None: nothing at all."""
    made, at = "", 0
    while at < len(glob):
        letter, before = glob[at], glob[at - 1 : at]
        at += 1
        if letter == "*":
            stars = 1 + len(glob[at:]) - len(glob[at:].lstrip("*"))
            at += stars - 1
            whole_part = stars > 1 and before in ("", "/") and glob[at : at + 1] in ("", "/")
            made += (".*" if at == len(glob) else "(?:.*/)?") if whole_part else "[^/]*"
            at += whole_part and at < len(glob)  # the slash is in it
        elif letter == "?":
            made += "[^/]"
        elif letter == "[":
            end = _end_of_set(glob, at)
            if end is None:
                return None
            made += _set(glob[at:end])
            at = end + 1
        elif letter == "\\":
            if at == len(glob):
                return None
            made += re.escape(glob[at])
            at += 1
        else:
            made += re.escape(letter)
    try:
        return re.compile(made, re.DOTALL) if glob else None
    except re.error:  # a range from high to low
        return None


def _end_of_set(glob: str, at: int) -> int | None:
    """Return where the ``]`` of a set is; as its first member it is a letter like others."""
    at += glob[at : at + 1] in ("!", "^")
    first = at
    while at < len(glob):
        if glob[at] == "]" and at > first:
            return at
        if glob.startswith("[:", at) and (end := glob.find(":]", at)) > 0:
            at = end + 1
        elif glob[at] == "\\":
            at += 1
        at += 1
    return None


def _set(body: str) -> str:
    negated = body[:1] in ("!", "^")
    members = body[1:] if negated else body
    members = re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], ""), members)
    members = re.sub(r"\\(.)", lambda found: re.escape(found[1]), members, flags=re.DOTALL)
    members = re.sub(r"(?<!\\)([\[\]^&~|])", r"\\\1", members)
    return f"(?!/)[{'^' if negated else ''}{members}]" if members else ("[^/]" if negated else "(?!)")
