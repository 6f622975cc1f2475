r"""Read what a launcher writes: which rank said what, and which failed first. Pure: bytes in, lines out.

How the real ones write (torch 2.13, Open MPI 4.1.4 and 5.0.11):

- torchrun: each piece of a rank's output comes after ``[default<LOCAL_RANK>]:``. A piece is a line, or as much of one
  as there was when it looked (each 0.1 s), so the next tag may stand in the middle of a line, and the rest of that line
  comes after its own tag later. ``\r`` has become a line break. Its own words have no tag.
- mpirun 4: the same, with ``[1,<RANK>]<stdout>:``, and a piece ends after 4 KiB at the latest, also within a character.
- mpirun 5: ``[1,<RANK>]<stdout>: `` and whole lines, but for a last one without a line break.

So pieces are put together for each tag, as bytes. A tag that follows upon a tag is what a rank has printed: there are
no empty pieces. torchrun's tags do not tell stdout from stderr; where both write parts of a line, they share it, as on
a terminal.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from jetq.clock import Clock, boot_s
from jetq.launch.causes import Causes, RootCause, with_code

#: Longer lines are cut into pieces of this (bytes).
LONGEST_LINE = 64 * 1024
#: What is kept of each rank's end: lines, and characters of each; for the ranks that spoke last.
TAIL_LINES, TAIL_WIDTH, TAIL_RANKS = 20, 500, 1024
#: A bar that draws itself anew (``\r``) becomes a line no more often than this (s); its last state always does.
BAR_S = 1.0
#: Begun lines that wait for their rest at one time; beyond, the oldest goes as it is.
_MOST_BEGUN = 256
_TORCHRUN = re.compile(rb"\[default(\d{1,4})\]:|\n")
_MPIRUN = {
    4: re.compile(rb"\[1,(\d{1,7})\]<std(?:out|err|diag)>:|\n"),
    5: re.compile(rb"\[1,(\d{1,7})\]<std(?:out|err|diag)>: |\n"),
}
_PLAIN = re.compile(rb"(?!)()|\n")
#: What may be the beginning of a tag at the end of what has been read so far.
_BEGUN_TAG = re.compile(rb"\[(?:1?|1,\d{0,7}|1,\d{1,7}\](?:<[a-z]{0,7}(?:>:?)?)?|d[efault]{0,6}\d{0,4}\]?)\Z")
_LONGEST_TAG = 24
#: What a launcher says behind a line that a rank has left without an end.
_LAUNCHERS = re.compile(rb"(?<!\A)(?:-{74}\Z|[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ torch/)")
_RULE = b"-" * 74
#: How tqdm's bars look; torchrun makes lines of their states.
_BAR = re.compile(rb"\d%\|.*\|")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output."""

    rank: int | None  # global number; None: the launcher's own word
    text: str


class Output:
    """What one launcher has written so far. Give it bytes as they come."""

    def __init__(self, tags: re.Pattern[bytes], ranks: Sequence[int], clock: Clock = boot_s) -> None:
        """``tags``: group 1 is a number, an index into ``ranks``; also matches line breaks."""
        self._tags, self._ranks, self._clock = tags, ranks, clock
        self._owner, self._just_tagged = b"", False  # whose text follows: a tag, or b"" for the launcher
        self._rank_of: dict[bytes, int] = {}  # of each tag that was met
        self._held = b""  # may be the beginning of a tag
        self._begun: OrderedDict[bytes, bytearray] = OrderedDict()  # tag -> line without its end
        self._bars: dict[bytes, bytes | None] = {}  # tag -> state that was not made a line; None: it was
        self._bar_at_s: dict[bytes, float] = {}  # tag -> when a state last was
        self._lines: list[Line] = []
        self._tails: OrderedDict[int | None, deque[str]] = OrderedDict()
        self._causes = Causes()

    @classmethod
    def of_torchrun(cls, ranks: Sequence[int], clock: Clock = boot_s) -> Output:
        """Read a torchrun's. ``ranks``: global numbers of the ranks that it starts, in the order of its local ones."""
        return cls(_TORCHRUN, ranks, clock)

    @classmethod
    def of_mpirun(cls, major: int, world_size: int, clock: Clock = boot_s) -> Output:
        """Read an mpirun's. ``major``: version of Open MPI, 4 or 5."""
        return cls(_MPIRUN[major], range(world_size), clock)

    @classmethod
    def of_daemon(cls, clock: Clock = boot_s) -> Output:
        """Read that of a program whose lines are all its own."""
        return cls(_PLAIN, (), clock)

    @property
    def cause(self) -> RootCause | None:
        """The first failing rank, once the launcher has named it."""
        cause = self._causes.first
        return with_code(cause, self.tail(cause.rank)) if cause else None

    def tail(self, rank: int | None) -> list[str]:
        """Return the last lines of a rank (None: of the launcher), oldest first, each cut to 500 characters."""
        return list(self._tails.get(rank, ()))

    def feed(self, data: bytes) -> list[Line]:
        """Take what was read, any amount. Returns the lines that are whole now."""
        data, start = self._held + data, 0
        for match in self._tags.finditer(data):
            self._add(data[start : match.start()])
            start = match.end()
            if match.lastindex is None:
                self._end(self._owner)
                self._owner, self._just_tagged = b"", False
            elif int(match[1]) < len(self._ranks) and not self._just_tagged:
                self._owner, self._just_tagged = match[0], True
                self._rank_of[match[0]] = self._ranks[int(match[1])]
            else:
                self._add(match[0])
        begun = _BEGUN_TAG.search(data, max(start, len(data) - _LONGEST_TAG))
        rest = begun.start() if begun else len(data)
        self._held = data[rest:]
        self._add(data[start:rest])
        return self._taken()

    def close(self) -> list[Line]:
        """Say that nothing follows. Returns the lines that have no end."""
        self._add(self._held)
        self._held = b""
        for owner in [*self._begun]:
            self._end(owner)
        for owner, state in self._bars.items():
            if state is not None:
                self._emit(owner, state)
        return self._taken()

    def _taken(self) -> list[Line]:
        lines, self._lines = self._lines, []
        return lines

    def _add(self, text: bytes) -> None:
        """Add to the begun line of whoever speaks."""
        if not text:
            return
        self._just_tagged = False
        line = self._begun.setdefault(self._owner, bytearray())
        redrawn = b"\r" in text or line.endswith(b"\r")
        line += text
        if redrawn:
            self._redraw(self._owner, line)
        while len(line) > LONGEST_LINE:
            cut = LONGEST_LINE
            while cut > LONGEST_LINE - 3 and line[cut] & 0xC0 == 0x80:  # within a character
                cut -= 1
            self._emit(self._owner, bytes(line[:cut]))
            del line[:cut]
        if len(self._begun) > _MOST_BEGUN:
            self._end(next(iter(self._begun)))

    def _redraw(self, owner: bytes, line: bytearray) -> None:
        """Leave the last state of a line that was drawn anew; a carriage return at its end may be half a break."""
        *before, last = bytes(line).rstrip(b"\r").split(b"\r")
        states = [state for state in before if state.strip()]
        if states:
            self._bar(owner, states[-1])
        line[:] = last + (b"\r" if line.endswith(b"\r") else b"")

    def _bar(self, owner: bytes, state: bytes) -> None:
        """Show a state that another follows, unless one was shown just before."""
        now_s = self._clock()
        if now_s - self._bar_at_s.get(owner, float("-inf")) >= BAR_S:
            self._bar_at_s[owner] = now_s
            self._bars[owner] = None
            self._emit(owner, state)
        else:
            self._bars[owner] = state

    def _end(self, owner: bytes) -> None:
        """A line is whole."""
        line = bytes(self._begun.pop(owner, b"")).rstrip(b"\r")
        behind = b""
        if owner and (b" torch/" in line or line.endswith(_RULE)) and (found := _LAUNCHERS.search(line)):
            line, behind = line[: found.start()], line[found.start() :]
        if owner and self._tags is _TORCHRUN and _BAR.search(line):
            self._bar(owner, line)
        else:
            wiped = owner in self._bars and self._tags is not _TORCHRUN and not line.strip()
            state = self._bars.pop(owner, None)
            if state is not None and (wiped or self._tags is _TORCHRUN):
                self._emit(owner, state)
            if not wiped:
                self._emit(owner, line)
        if behind:
            self._emit(b"", behind)

    def _emit(self, owner: bytes, raw: bytes) -> None:
        rank = self._rank_of.get(owner)
        text = raw.decode("utf-8", "replace").replace("\0", "")
        if rank is not None and text.startswith("jetq: ") and self._causes.take_end(rank, text):
            return
        self._lines.append(Line(rank, text))
        tail = self._tails.setdefault(rank, deque(maxlen=TAIL_LINES))
        tail.append(text[:TAIL_WIDTH])
        self._tails.move_to_end(rank)
        if len(self._tails) > TAIL_RANKS:
            self._tails.popitem(last=False)
        if rank is None:
            self._causes.take(text)
