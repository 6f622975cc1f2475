"""A launch request: what mpirun asks its launch agent to run on another machine. Pure.

Open MPI calls ``AGENT HOST WORD ...``, where the words are one line for a POSIX shell, also where the user's own shell
is another or nologin (tried with 4.1.4 and 5.0.11)::

    PRTE_PREFIX=/opt/x;export PRTE_PREFIX;...;/opt/x/bin/prted --leave-session-attached --prtemca ess "env" ...
    PATH=/opt/x/bin:$PATH ; export PATH ; ... /opt/x/bin/orted -mca ess "env" ...

The paths are those of the head. A member starts its own daemon with the arguments, and nothing else: no shell reads the
line, and no other program is started for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from jetq.errors import UsageError

#: The daemon of Open MPI 5, and of 4.
DAEMONS = ("prted", "orted")
#: Has the head's interface as its value, and the one name must be there (``jetq.launch.mpirun`` says why).
_INTERFACE = "prte_if_include"
#: It would leave the member that has to watch it.
_DETACH = "--daemonize"
#: Comes first where the head's user has sh or ksh as a shell, and a ")" last: read what a login shell reads.
_PROFILE = ["(", "test", "!", "-r", "./.profile", "||", ".", "./.profile"]
_BEFORE = re.compile(r"export [A-Za-z_]\w*|[A-Za-z_]\w*=\S*")


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A daemon that shall be started on the machine of one address."""

    host: str
    daemon: str  # prted or orted
    args: tuple[str, ...]

    @classmethod
    def parse(cls, words: Sequence[str]) -> LaunchRequest:
        """Read the words that Open MPI gave its launch agent.

        Raises:
            UsageError: they are no such request, or ask for another program.
        """
        if len(words) < 2:
            raise UsageError("mpirun called its launch agent without a host and a command")
        statements = _bare(_statements(" ".join(words[1:])))
        for before in statements[:-1]:
            if not _BEFORE.fullmatch(" ".join(before)):
                raise UsageError(f"mpirun asked for {' '.join(before)!r:.80}; only its daemon is started")
        program = statements[-1][0].rpartition("/")[2] if statements else ""
        if program not in DAEMONS:
            raise UsageError(f"mpirun asked for {program!r:.80}, but only {' and '.join(DAEMONS)} are started")
        return cls(words[0], program, tuple(statements[-1][1:]))

    def argv(self, daemon: str, interface: str) -> tuple[str, ...]:
        """Return the command line of a member: its own daemon (a path), which talks through its own interface."""
        args = [word for word in self.args if word != _DETACH]
        for index, word in enumerate(args[:-1]):
            if word == _INTERFACE:
                args[index + 1] = interface
        return (daemon, *args)


def _bare(statements: list[list[str]]) -> list[list[str]]:
    """Return statements without what is put around them for a user whose shell is sh or ksh."""
    if statements and statements[0] == _PROFILE and statements[-1][-1] == ")":
        inside = [*statements[1:-1], statements[-1][:-1]]
        return [words for words in inside if words]
    return statements


def _statements(line: str) -> list[list[str]]:
    """Return the words of a line by statement, as a shell cuts it; quotes are removed, nothing is expanded."""
    cut = shlex.shlex(line, posix=True, punctuation_chars=";")
    cut.whitespace_split = True
    cut.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for word in cut:
            if word and not word.strip(";"):
                found.append([])
            else:
                found[-1].append(word)
    except ValueError as exc:
        raise UsageError(f"mpirun's line cannot be read ({exc}): {line!r:.80}") from exc
    return [words for words in found if words]
