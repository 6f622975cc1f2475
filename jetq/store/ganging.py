"""Two more roles of the ledger: of who schedules gangs, and of a gang's members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from jetq.model.job import JobState
from jetq.model.members import Foreseen, GangView, Kept, Part
from jetq.policy.timetable import Room


class GangScheduling(Protocol):
    """What the leader asks about gangs. Whatever comes under a term that is over does nothing."""

    def time_s(self) -> float:
        """Return the server's clock (Unix, s)."""
        ...

    def gangs(self) -> list[GangView]:
        """Return all gangs that have not ended, oldest first."""
        ...

    def rooms(self) -> list[Room]:
        """Return all nodes that are there, and who holds what on them until when."""
        ...

    def reserve(self, epoch: str, term: int, gang: GangView, nodes: Sequence[str], why: str) -> str:
        """Start a gang on all these nodes, the head first, or not at all. Returns "" or why not."""
        ...

    def stop_gang(self, epoch: str, term: int, gang: GangView, why: str) -> bool:
        """Ask all members of a gang's start to end. False: the term or that start is over."""
        ...

    def end_gang(
        self,
        epoch: str,
        term: int,
        gang: GangView,
        state: JobState,
        why: str,
        *,
        exit_code: int | None = None,
        tail: Sequence[str] = (),
        tally: Mapping[str, int] | None = None,
        not_before_s: float | None = None,
        bounds: tuple[int, int] | None = None,
    ) -> bool:
        """End a gang whose members have all ended, or put it back into the queue, with its age."""
        ...

    def foresee(self, epoch: str, term: int, kept: Sequence[Kept], said: Sequence[Foreseen]) -> bool:
        """Keep room free on nodes, and say what is expected of gangs."""
        ...


class Meeting(Protocol):
    """What a member of a gang asks."""

    def part(self, member_id: str) -> Part:
        """Return what a member has to know of its gang.

        Raises:
            NoSuchJob: it is no member of a gang, or that is forgotten.
        """
        ...

    def meet(self, member_id: str, token: str, about: str, said: str) -> tuple[list[str] | None, list[int]]:
        """Say something to the other members: what all have said, in their order, or who is missing.

        Returns ``(None, [])`` where the gang goes on without this member.
        """
        ...

    def lease_port(self, place: str, port: int, member_id: str) -> bool:
        """Take a port of a machine for a member. False: another member that runs has it."""
        ...

    def free_port(self, place: str, port: int) -> None:
        """Give a port back."""
        ...

    def tell_lines(self, gang_id: str, node: str, lines: Sequence[tuple[int | None, str]], progress: str = "") -> None:
        """Add to the live copy of what ranks write, and say how far the gang is (JSON; "": unchanged)."""
        ...

    def say_done(self, member_id: str) -> bool:
        """Say that a member which shall end has no rank any more. True: all others have said so, or have ended."""
        ...

    def say_over(self, gang_id: str, start: int, code: int) -> None:
        """The head has ended: who serves it need not wait any more."""
        ...

    def is_over(self, gang_id: str, start: int) -> bool:
        """Whether the head has ended."""
        ...

    def ask_launch(self, gang_token: str, address: str, words: Sequence[str]) -> str:
        """Ask the member at an address to start a daemon. Returns the request's id."""
        ...

    def launched(self, asked: str) -> tuple[int, str] | None:
        """Return how a requested daemon ended, and what it wrote; None: it runs."""
        ...

    def launches(self, gang_token: str, address: str) -> dict[str, list[str]]:
        """Return all requests to the member at an address: id -> words."""
        ...

    def answer_launch(self, asked: str, code: int, output: str) -> None:
        """Say how a requested daemon ended."""
        ...

    def drain(self, node: str, why: str, *, grace_s: float) -> None:
        """Give a node no new work."""
        ...

    def get_blob(self, blob_id: str, path: str | Path) -> bool:
        """Write a blob to a file. False: the ledger has it no more."""
        ...
