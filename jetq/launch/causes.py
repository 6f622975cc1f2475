"""Find out from a launcher's own words which rank failed first. Pure: lines in, one cause out.

torchrun's report names all failures and ends with the ``Root Cause (first observed failure)``; the rank in it is the
global one, and a code below 0 is a signal. mpirun names one process in a block between rules of dashes: by its exit
code, its signal, or its call of MPI_Abort, whose code Open MPI 4 says itself and 5 lets the rank say. Where several
ranks end at one time, 5 mostly names none; so the shell around each rank says how it ended (``jetq.launch.mpirun``).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

#: A launcher's block is read up to here (lines); torchrun's lists every rank that failed.
_BLOCK_LINES = 400
#: Longest text of an exception that is taken into a cause (characters).
_LONGEST = 200
_RULE = re.compile(r"[-=]{20,}")
_TORCHRUN = "Root Cause (first observed failure):"
_RANK = re.compile(r"\brank *: (\d+) \(local_rank: \d+\)")
_EXIT = re.compile(r"\bexitcode *: (-?\d+)")
_TRACE = re.compile(r"traceback *: Traceback \(most recent call last\):")
#: In mpirun's blocks, their line breaks made spaces: Debian's 4.1.4 breaks them elsewhere than 5 does.
_EXITED = re.compile(r"Process name: \[(?:\[\d+,\d+\]|[^\],]+),(\d+)\] Exit code: (-?\d+)")
_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+)")
_ABORTED = re.compile(r"MPI_ABORT was invoked on rank (\d+) in communicator MPI_COMM_WORLD with errorcode (-?\d+)")
_CALLED_ABORT = re.compile(r'process rank (\d+) with PID \d+ on node \S+ calling "abort"')
_TOLD = re.compile(r"jetq: rank (\d+) exited with code (\d+)")
_ERRORCODE = re.compile(r"\bErrorcode: (-?\d+)")


@dataclass(frozen=True, slots=True)
class RootCause:
    """The rank that failed first, as the launcher saw it."""

    rank: int
    code: int | None  # below 0: killed by that signal; None: the launcher does not say
    why: str  # for example: exited with code 3


class Causes:
    """What a launcher has said itself, cut at its rules, until one block names a cause."""

    def __init__(self) -> None:
        self._block: list[str] = []
        self._told: RootCause | None = None
        self._found: RootCause | None = None

    def take(self, text: str) -> None:
        """Read the launcher's next line."""
        if self._found is not None:
            return
        if _RULE.fullmatch(text.strip()):
            self._found = _cause(self._block)
            self._block = []
        elif len(self._block) < _BLOCK_LINES:
            self._block.append(text)

    def take_end(self, rank: int, text: str) -> bool:
        """Read a rank's line if it says how the rank ended. False: it is the rank's own word."""
        found = _TOLD.fullmatch(text)
        if found is None or int(found[1]) != rank:
            return False
        if self._told is None:
            self._told = _exited(rank, int(found[2]))
        return True

    @property
    def first(self) -> RootCause | None:
        """The cause, once the launcher has named it, or a rank has told that it failed."""
        return self._found or _cause(self._block) or self._told


def with_code(cause: RootCause, said: Sequence[str]) -> RootCause:
    """Return a cause whose code is known where the rank has said it itself. ``said``: its last lines."""
    codes = [match[1] for match in map(_ERRORCODE.search, said) if match]
    return _aborted(cause.rank, int(codes[-1])) if cause.code is None and codes else cause


def ending(code: int) -> str:
    """Say how a process ended that has this exit code, below 0 for a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:  # a real-time signal
        name = ""
    return f"was killed by signal {-code}{name}"


def _cause(block: Sequence[str]) -> RootCause | None:
    if _TORCHRUN in block:
        return _torchrun(block[block.index(_TORCHRUN) + 1 :])
    text = " ".join(" ".join(block).split())
    if found := _EXITED.search(text):
        return _exited(int(found[1]), int(found[2]))
    if found := _KILLED.search(text):
        return RootCause(int(found[1]), -int(found[2]), ending(-int(found[2])))
    if found := _ABORTED.search(text):
        return _aborted(int(found[1]), int(found[2]))
    if found := _CALLED_ABORT.search(text):
        return RootCause(int(found[1]), None, "called MPI_Abort")
    return None


def _torchrun(lines: Sequence[str]) -> RootCause | None:
    rank = next((match for match in map(_RANK.search, lines) if match), None)
    code = next((match for match in map(_EXIT.search, lines) if match), None)
    if rank is None or code is None:
        return None
    why = ending(int(code[1]))
    said = [line.strip() for line in lines if line.strip()]
    if any(map(_TRACE.search, lines)) and said:  # a program with torch's @record says what it was
        why = f"{why} ({said[-1][:_LONGEST]})"
    return RootCause(int(rank[1]), int(code[1]), why)


def _exited(rank: int, code: int) -> RootCause:
    """Return the cause that a shell's exit code tells of: above 128 it stands for a signal."""
    own = 128 - code if 128 < code <= 128 + signal.NSIG else code
    return RootCause(rank, own, ending(own))


def _aborted(rank: int, code: int) -> RootCause:
    return RootCause(rank, code, f"called MPI_Abort with code {code}")
