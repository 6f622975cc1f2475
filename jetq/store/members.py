"""The ledger for members of gangs: they meet, lease ports, tell lines, ask for daemons. Part of ``RedisStore``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from jetq import ids
from jetq.errors import BrokerUnsure, NoSuchJob
from jetq.model.gang import GangSpec
from jetq.model.job import TERMINAL, JobState
from jetq.model.members import GangLine, Part
from jetq.store.link import Link, fields_of, text

#: Lines of a gang that the live copy keeps; the nodes' files keep all.
LINES = 4000
#: How a requested daemon ended is kept so long (s).
ANSWER_S = 600
#: Leases of ports are forgotten so long after the last of their machine (s): by then each is bound, which shows, too.
PORTS_TTL_S = 24 * 3600


class MemberSide(Link):
    """The role ``Meeting`` of ``store.ganging``, and what those ask who follow a gang or start its daemons."""

    def time_s(self) -> float:
        """Return the server's clock (Unix, s)."""
        seconds, micros = self._read("TIME")
        return int(seconds) + int(micros) / 1e6

    def part(self, member_id: str) -> Part:
        """Return what a member has to know of its gang.

        Raises:
            NoSuchJob: it is no member of a gang, or that is forgotten.
        """
        mine = self._hash(f"job:{member_id}")
        gang_id = mine.get("whole", "")
        gang = self._hash(f"job:{gang_id}") if gang_id else {}
        if not gang.get("spec"):
            raise NoSuchJob(gang_id or member_id)
        of_node = ("HMGET", f"{self.prefix}node:{mine['node']}", "slots", "gpu")
        (slots, gpus), (seconds, micros) = self._read_all(of_node, ("TIME",))
        return Part(
            gang_id,
            int(mine["index"]),
            tuple(gang["nodes"].split()),
            int(gang["starts"]),
            int(gang.get("attempt") or 0) + 1,
            gang["token"],
            GangSpec.from_json(json.loads(gang["spec"])),
            bool(gang.get("keep")),
            float(slots or 0),
            int(gpus or 0),
            int(seconds) + int(micros) / 1e6,
            time.time(),
        )

    def meet(self, member_id: str, token: str, about: str, said: str) -> tuple[list[str] | None, list[int]]:
        """Say something to the other members: what all have said, in their order, or who is missing.

        Returns ``(None, [])`` where the gang goes on without this member. ``about``: hello, reach or begin.

        Raises:
            BrokerUnsure: the server was started anew; ask again in a moment.
        """
        got = self._run("meet", member_id, token, about, said)
        if int(got[0]) == -2:
            raise BrokerUnsure
        if int(got[0]) < 0:
            return None, []
        if int(got[0]):
            return [text(x) for x in got[1:]], []
        return [], [int(x) for x in got[1:]]

    def lease_port(self, place: str, port: int, member_id: str) -> bool:
        """Take a port of a machine for a member. False: another member that runs has it."""
        key = f"{self.prefix}ports:{place}"
        if self._read_all(("HSETNX", key, port, member_id), ("EXPIRE", key, PORTS_TTL_S))[0]:
            return True
        holder = text(self._read("HGET", key, port))
        state = text(self._read("HGET", f"{self.prefix}job:{holder}", "state")) if holder else ""
        if holder == member_id:
            return True
        if state and JobState(state) not in TERMINAL:
            return False
        self._read("HDEL", key, port)
        return bool(self._read("HSETNX", key, port, member_id))

    def free_port(self, place: str, port: int) -> None:
        """Give a port back."""
        self._read("HDEL", f"{self.prefix}ports:{place}", port)

    def tell_lines(self, gang_id: str, node: str, lines: Sequence[tuple[int | None, str]], progress: str = "") -> None:
        """Add to the live copy of what ranks write, and say how far the gang is (JSON; "": unchanged)."""
        words = [word for rank, line in lines for word in ("" if rank is None else rank, line)]
        self._run("tell_lines", gang_id, node, LINES, self._ttl_s, progress, *words)

    def say_done(self, member_id: str) -> bool:
        """Say that a member which shall end has no rank any more. True: all others have said so, or have ended."""
        gang_id = text(self._read("HGET", f"{self.prefix}job:{member_id}", "whole"))
        members = [str(x) for x in json.loads(text(self._read("HGET", f"{self.prefix}job:{gang_id}", "parts")) or "[]")]
        self._read("HSET", f"{self.prefix}gang:{gang_id}", f"done.{member_id}", "1")
        said = self._hash(f"gang:{gang_id}")
        missing = [member for member in members if f"done.{member}" not in said]
        states = (
            self._read_all(*(("HGET", f"{self.prefix}job:{member}", "state") for member in missing)) if missing else []
        )
        return all(not state or JobState(text(state)) in TERMINAL for state in states)

    def say_over(self, gang_id: str, start: int, code: int) -> None:
        """The head has ended: who serves it need not wait any more."""
        self._together(
            ("HSET", f"{self.prefix}gang:{gang_id}", f"over.{start}", code),
            ("EXPIRE", f"{self.prefix}gang:{gang_id}", self._ttl_s),
        )

    def is_over(self, gang_id: str, start: int) -> bool:
        """Whether the head has ended."""
        return self._read("HGET", f"{self.prefix}gang:{gang_id}", f"over.{start}") is not None

    # Launch requests: read, never popped, so that a lost answer loses no request -------------------------------------

    def ask_launch(self, gang_token: str, address: str, words: Sequence[str]) -> str:
        """Ask the member at an address to start a daemon. Returns the request's id."""
        asked = ids.random64()
        key = f"{self.prefix}launch:{gang_token}:{address}"
        self._together(("HSET", key, asked, json.dumps(list(words))), ("EXPIRE", key, self._ttl_s))
        return asked

    def launches(self, gang_token: str, address: str) -> dict[str, list[str]]:
        """Return all requests to the member at an address: id -> words."""
        asked = self._hash(f"launch:{gang_token}:{address}")
        return {request: [str(word) for word in json.loads(words)] for request, words in asked.items()}

    def answer_launch(self, asked: str, code: int, output: str) -> None:
        """Say how a requested daemon ended."""
        self._read("SET", f"{self.prefix}launched:{asked}", json.dumps([code, output]), "EX", ANSWER_S)

    def launched(self, asked: str) -> tuple[int, str] | None:
        """Return how a requested daemon ended, and what it wrote; None: it runs."""
        got = self._read("GET", f"{self.prefix}launched:{asked}")
        if got is None:
            return None
        code, output = json.loads(got)
        return int(code), str(output)

    def gang_lines(self, job_id: str, after: str = "", limit: int = 500) -> tuple[str, list[GangLine]]:
        """Return what ranks have written since, and the place to go on from ("": the oldest that is kept).

        A place is the number of the last line, from 1, and ``-0``: where lines are missing before these, they were
        dropped before anybody asked.
        """
        begin = f"({after}" if after else "-"
        rows = self._read("XRANGE", f"{self.prefix}gang.lines:{job_id}", begin, "+", "COUNT", limit)
        lines = []
        for entry, pairs in rows or ():
            after = text(entry)
            said = fields_of(pairs)
            lines.append(GangLine(float(said["a"]), said["n"], int(said["r"]) if said["r"] else None, said["t"]))
        return after, lines
