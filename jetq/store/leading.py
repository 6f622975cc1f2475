"""What the leader and people ask of the ledger: judging, healing, drains. Part of ``store.redis.RedisStore``."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jetq import ids
from jetq.errors import NodeAlive, NoSuchNode
from jetq.model.claim import Ended, Held
from jetq.model.job import TERMINAL, JobState
from jetq.model.survey import ABSENT, Heard, Judgement, Lead, Survey, Verdict, node_view
from jetq.page import Entry
from jetq.store.keys import PRIORITY_SEP
from jetq.store.link import Link, text
from jetq.store.rows import USUAL_KIND

#: kombu's sets of queues by exchange, and the exchanges whose queues belong to one process.
_BINDING = "_kombu.binding."
_EXCHANGES = ("reply.celery.pidbox", "celeryev")


class LeaderSide(Link):
    """The role ``Leading`` of ``store.steering``, what the janitor asks, and what people ask of nodes."""

    # Leading --------------------------------------------------------------------------------------------------------

    def lead(self, node: str, epoch: str, *, lease_s: float) -> Lead:
        """Take or renew the leader's lease."""
        term, time_s, unsure, *other = self._run("lead", node, epoch, lease_s)
        heard = Heard(text(other[0]), text(other[1]), int(other[2] or 0)) if other else None
        return Lead(int(term), float(time_s), bool(unsure), heard)

    def survey(self, epoch: str, term: int, *, oldest: int, part: int = 0, size: int = 25) -> Survey | None:
        """Look at all nodes and at the jobs that have waited longest. None: the term is over.

        And at one ``part`` of the others (it wraps around): ``size`` jobs where messages are missing, else ``oldest``.
        """
        got = self._run("survey", epoch, term, oldest, part, size)
        if not got:
            return None
        nodes = tuple(node_view(*(text(x) for x in row[:-1]), held=held_jobs(row[-1])) for row in got[0])
        return Survey(nodes, tuple((text(job), text(token)) for job, token in got[1]))

    def judge(self, epoch: str, term: int, judgement: Judgement) -> bool:
        """Make a node suspect or dead. False: it has shown up meanwhile, or the term is over."""
        j = judgement
        return bool(self._run("judge", epoch, term, j.node, j.epoch, j.seq, j.state, j.why, *seed(), self._ttl_s))

    def heal(self, epoch: str, term: int, verdicts: Sequence[Verdict]) -> list[str]:
        """Mend what was found broken. Returns the state of each job now, "" where nothing was done."""
        words = [word for v in verdicts for word in (v.job_id, v.token, v.action, v.node, v.why)]
        answers = self._run("heal", epoch, term, *seed(), self._ttl_s, *words) or [""] * len(verdicts)
        return [text(state) for state in answers]

    def due(self, limit: int = 100, *, expected_s: float | None = None) -> bool:
        """Publish what is due, expire what is late. False: the server's clock is not where it was expected."""
        return bool(self._run("due", limit, *seed(), self._ttl_s, "" if expected_s is None else expected_s))

    def untold(self, limit: int = 100) -> list[Ended]:
        """Return what ended outside a lane and was not yet told to Celery; each comes again after 10 s."""
        return [Ended(*(text(x) for x in row)) for row in self._run("untold", limit)]

    def told(self, job_id: str) -> None:
        """Celery has been told of an ended job. Of one that goes on nothing is taken."""
        state = text(self._read("HGET", f"{self.prefix}job:{job_id}", "state"))
        if state and JobState(state) not in TERMINAL:
            return
        self._read("ZREM", f"{self.prefix}tell", job_id)
        self._read("DEL", f"{self.prefix}msg:{job_id}")

    def audit(self, epoch: str, term: int, after: str, *, limit: int) -> tuple[str, list[str]]:
        """Look through ``limit`` jobs for such that stand nowhere, and mend them.

        Returns where to go on ("": all were looked at), and the ids of those that were mended.
        """
        last, *mended = self._run("audit", epoch, term, after or "-inf", limit, *seed(), self._ttl_s)
        return text(last), [text(job) for job in mended]

    def shift(self, epoch: str, term: int, by_s: float) -> None:
        """Move every time that something waits for: the server's clock was set."""
        self._run("shift", epoch, term, by_s)

    def resynced(self, epoch: str, term: int) -> None:
        """All nodes had their time to say what runs on a server that was started anew."""
        self._run("resynced", epoch, term)

    def fresh_runs(self) -> dict[str, dict[str, list[float]]]:
        """Return the run times (s, newest first) by board of each task name that has new ones; ask once."""
        boards = [text(b) for b in self._read("SMEMBERS", f"{self.prefix}boards")]
        runs = {}
        for raw in self._read("SPOP", f"{self.prefix}fresh", 100):
            name = text(raw)
            lists = {b: self._read("LRANGE", f"{self.prefix}runs:{name}:{b}", 0, 19) for b in boards}
            runs[name] = {b: [float(x) for x in times] for b, times in lists.items() if times}
        return runs

    def set_speeds(self, name: str, speeds: Mapping[str, float]) -> None:
        """Keep the learned speed of a task name on each board (prior = 1)."""
        rounded = {board: float(f"{speed:.6g}") for board, speed in speeds.items()}
        self._read("HSET", f"{self.prefix}routes", f"={name}", json.dumps(rounded))

    # Attic: what the janitor asks -----------------------------------------------------------------------------------

    def absent(self, older_than_s: float) -> list[str]:
        """Return the nodes that are gone or dead since so long (s)."""
        now_s = int(self._read("TIME")[0])
        rows = {n: self._read("HMGET", f"{self.prefix}node:{n}", "state", "beat_at") for n in self._names()}
        return [n for n, (state, at) in rows.items() if text(state) in ABSENT and now_s - float(at or 0) > older_than_s]

    def mailboxes(self) -> dict[str, str]:
        """Return Celery's reply and event lists that hold something: name -> what is next."""
        found = {}
        for exchange in _EXCHANGES:
            for member in self._read("SMEMBERS", f"{self.prefix}{_BINDING}{exchange}"):
                name = text(member).rpartition(PRIORITY_SEP)[2]
                last = self._read("LINDEX", self.prefix + name, -1)
                if last:
                    found[name] = hashlib.sha256(text(last).encode()).hexdigest()
        return found

    def remove_mailbox(self, name: str) -> None:
        """Delete such a list and what leads to it."""
        for exchange in _EXCHANGES:
            key = f"{self.prefix}{_BINDING}{exchange}"
            for member in self._read("SMEMBERS", key):
                if text(member).rpartition(PRIORITY_SEP)[2] == name:
                    self._read("SREM", key, member)
        self._read("DEL", self.prefix + name)

    # NodeKeeper: what an agent asks beside its beats ------------------------------------------------------------------

    def reassert(self, node: str, epoch: str, entries: Iterable[Entry]) -> int:
        """Say what runs here to a server that may have lost the claims. Returns how many it had lost."""
        words = [word for e in entries if e.token for word in (e.job_id, e.pub, e.claimer, e.token)]
        return int(self._run("reassert", node, epoch, random.random(), *words))

    def evict(self, node: str, epoch: str, why: str) -> int:
        """Ask for the end of all that runs on a draining node. Returns how many jobs that are."""
        return int(self._run("evict", node, epoch, why))

    # What people ask of nodes ---------------------------------------------------------------------------------------

    def drain(self, node: str, why: str, *, grace_s: float) -> None:
        """Give a node no new work, hand on what it has not begun, and let what runs end within the grace.

        Raises:
            NoSuchNode: unknown name.
        """
        if not self._run("drain", node, why, grace_s, *seed(), self._ttl_s):
            raise NoSuchNode(node, self._names())

    def resume(self, node: str) -> None:
        """Let a drained node have work again.

        Raises:
            NoSuchNode: unknown name.
        """
        if not self._run("resume", node):
            raise NoSuchNode(node, self._names())

    def forget(self, node: str, *, dead_s: float) -> None:
        """Strike a node off that is gone or dead; what it held is picked again.

        Raises:
            NoSuchNode: unknown name. NodeAlive: it still beats.
        """
        answer = int(self._run("forget", node, dead_s, *seed(), self._ttl_s))
        if answer < 0:
            raise NodeAlive(node)
        if not answer:
            raise NoSuchNode(node, self._names())


def held_jobs(rows: Iterable[Sequence[Any]]) -> tuple[Held, ...]:
    """Return leases from rows of id, state, token, claimer, node and kind."""
    held = []
    for row in rows:
        job, state, token, claimer, node, kind = (text(x) for x in row)
        held.append(Held(job, state, token, claimer, node, kind or USUAL_KIND))
    return tuple(held)


def seed() -> tuple[str, float]:
    """Return what a script needs to mint tokens and to break ties."""
    return ids.random64(), random.random()
