"""The ledger on Redis or Valkey: each method is one script or one read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from jetq import ids
from jetq.errors import BrokerDown, BrokerUnsure, EpochOver, NameTaken, NoSuchJob, PublishUnknown
from jetq.model.beat import Beat, BeatReply, NodeFacts, NodeRow
from jetq.model.claim import Claim, Held
from jetq.model.job import JobRow
from jetq.model.limits import cut
from jetq.model.needs import PRIORITY_STEPS
from jetq.policy import strategies
from jetq.store import keys, orders, rows
from jetq.store.base import After, Joining, Order, Parcel, Placed, StoredResult
from jetq.store.blobs import Blobs
from jetq.store.gangs import GangSide
from jetq.store.leading import LeaderSide, held_jobs, seed
from jetq.store.link import connect, fields_of, text
from jetq.store.members import MemberSide
from jetq.store.streams import StreamSide

__all__ = ["RedisStore", "connect"]


class RedisStore(LeaderSide, GangSide, MemberSide, StreamSide, Blobs):
    """All roles of the ledger on one client."""

    # Publisher ----------------------------------------------------------------------------------------------------

    def publish(self, order: Order, parcels: Sequence[Parcel], *, wait_for_node: bool = False) -> list[Placed]:
        """Place up to 200 jobs in one script."""
        return self.publish_ahead(order, parcels, wait_for_node=wait_for_node)()

    def publish_ahead(
        self, order: Order, parcels: Sequence[Parcel], *, wait_for_node: bool = False
    ) -> Callable[[], list[Placed]]:
        """Send up to 200 jobs now, and take the answer when it is called for."""
        args = orders.publish_args(order, strategies.get(order.strategy).how, parcels, wait_for_node=wait_for_node)
        answer = self._run_ahead("publish", *args)

        def placed() -> list[Placed]:
            try:
                return orders.read_placed(order, parcels, answer())
            except BrokerDown as exc:
                raise PublishUnknown(parcels[0].job_id) from exc

        return placed

    # Lane ---------------------------------------------------------------------------------------------------------

    def claim(self, job_id: str, pub: str, node: str, epoch: str, claimer: str) -> Claim:
        """Ask to run a job whose message arrived."""
        got = self._run("claim", job_id, pub, node, epoch, claimer, *seed(), self._ttl_s)
        if text(got[0]) == "unsure":
            raise BrokerUnsure
        verdict, token, attempts, rest = text(got[0]), text(got[1]), int(got[2]), text(got[3])
        refused = verdict == "refused"
        return Claim(cast(Any, verdict), token, attempts, "" if refused else rest, rest if refused else "")

    def finish(self, job_id: str, token: str, claimer: str, outcome: str) -> bool:
        """Record how the body ended, before anything is told of it."""
        return _sure(self._run("finish", job_id, token, claimer, outcome)) == 1

    def settle(
        self,
        job_id: str,
        token: str,
        claimer: str,
        state: str,
        *,
        result: str = "",
        error: str = "",
        stored: StoredResult | None = None,
    ) -> bool:
        """End the job and free its lease."""
        args: list[Any] = [job_id, token, claimer, state, result, cut(error), self._ttl_s, random.random()]
        if stored is not None:
            args += (stored.key, stored.payload, stored.ttl_s)
        return _sure(self._run("settle", *args)) == 1

    def lost(
        self, job_id: str, node: str, claimer: str | None, why: str, *, then: After = "charge", epoch: str = ""
    ) -> str:
        """Report that what ran the job is gone."""
        return text(self._run("lost", job_id, node, claimer or "", cut(why), then, *seed(), self._ttl_s, epoch))

    def drop(self, job_id: str, pub: str, node: str, state: str, why: str) -> bool:
        """End an unclaimed job that can never run."""
        return bool(self._run("drop", job_id, pub, node, state, cut(why), self._ttl_s, random.random()))

    def misfit(self, job_id: str, pub: str, node: str) -> str:
        """Hand on a job whose message arrived at a node that does not know its task."""
        return text(self._run("misfit", job_id, pub, node, *seed(), self._ttl_s))

    def put_back(self, job_id: str, pub: str) -> bool:
        """Return a popped message that was not started."""
        return bool(self._run("put_back", job_id, pub))

    def unblock(self, client_name: str) -> None:
        """End the blocking pops of the connections with this name."""
        for row in self._read("CLIENT LIST", "TYPE", "NORMAL"):
            if row.get("name") == client_name and "b" in row.get("flags", ""):
                self._read("CLIENT UNBLOCK", row["id"])

    # NodeKeeper ---------------------------------------------------------------------------------------------------

    def join(
        self,
        facts: NodeFacts,
        rates: Mapping[str, float],
        *,
        dead_s: float,
        tasks: Iterable[str] = (),
        how: Joining = "anew",
    ) -> list[str]:
        """Make ``facts.epoch`` the node's live one. Returns the cohorts it serves.

        Raises:
            NameTaken: another machine of this name is alive. EpochOver: it was to join again, and is no longer live.
        """
        f = facts
        got = self._run(
            "join",
            *(f.name, f.identity, f.epoch, f.slots, f.gpu, f.mem_bytes, f.board, " ".join(f.labels), f.version),
            json.dumps(dict(rates)),
            dead_s,
            *seed(),
            self._ttl_s,
            *(f.door, f.address, f.cores, f.decode),
            how,
            *sorted(tasks),
        )
        if got[0] == 2:
            raise EpochOver(f.name)
        if not got[0]:
            raise NameTaken(f.name, f"{f.name}-{f.identity[-4:]}")
        return list(json.loads(got[1]))

    def beat(self, beat: Beat) -> BeatReply:
        """Say that the node lives, and what it is like."""
        b = beat
        got = self._run(
            "beat",
            *(b.node, b.epoch, b.seq, b.state, json.dumps(b.rates), b.net, b.weight, b.trim),
            json.dumps(b.metrics.as_json()),
            json.dumps(b.running),
            json.dumps(b.reserved),
            random.random(),
        )
        if not got[0]:
            return BeatReply(accepted=False, over=text(got[1]))
        return BeatReply(
            True,
            tuple(json.loads(got[1])),
            float(got[2]),
            float(got[3]),
            tuple(sorted(text(x) for x in got[7:])),
            int(got[4] or 0),
            int(got[5] or 0),
            float(got[6]) if got[6] else None,
        )

    def leave(self, node: str, epoch: str) -> None:
        """The epoch is over by plan."""
        self._run("leave", node, epoch, *seed(), self._ttl_s)

    def held(self, node: str) -> list[Held]:
        """Return what the node holds leases for."""
        jobs = [text(job) for job in self._read("HKEYS", f"{self.prefix}leases:{node}")]
        fields = ("state", "token", "claimer", "node", "kind")
        found = self._read_all(*(("HMGET", f"{self.prefix}job:{job}", *fields) for job in jobs))
        return list(held_jobs([job, *values] for job, values in zip(jobs, found, strict=True)))

    def again(self, node: str, epoch: str, why: str = "its node is stopping") -> int:
        """Pick the node's unclaimed jobs again."""
        return int(self._run("again", node, epoch, why, *seed(), self._ttl_s))

    # Reader -------------------------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobRow | None:
        """Return one job, or None."""
        return next(iter(self._rows([job_id])), None)

    def jobs(self, limit: int = 1000) -> list[JobRow]:
        """Return the newest jobs, newest first, and all streams that have not ended."""
        return self._rows(list(dict.fromkeys([*self.job_ids(limit), *reversed(self.stream_ids())])))

    def live_streams(self) -> list[JobRow]:
        """Return all streams that have not ended, the oldest first."""
        return self._rows(self.stream_ids())

    def _rows(self, job_ids: Sequence[str]) -> list[JobRow]:
        """Return the jobs that are known."""
        asked_for = [("HGETALL", f"{self.prefix}job:{job_id}") for job_id in job_ids]
        (seconds, micros), *answers = self._read_all(("TIME",), *asked_for)
        now_s = int(seconds) + int(micros) / 1e6
        records = {job_id: fields_of(got) for job_id, got in zip(job_ids, answers, strict=True) if got}
        asked = {record["name"] for record in records.values() if rows.waits_for_task(record)}
        knowers = {name: str(self.knowers(name)) for name in asked}
        for record in records.values():
            if rows.waits_for_task(record):
                record["knowers"] = knowers[record["name"]]
        return [rows.job_row(job_id, record, now_s) for job_id, record in records.items()]

    def job_ids(self, limit: int) -> list[str]:
        """Return the ids of the newest jobs, newest first."""
        return [text(job) for job in self._read("ZRANGE", f"{self.prefix}jobs", 0, limit - 1, "REV")]

    def nodes(self) -> list[NodeRow]:
        """Return all known nodes by name."""
        names = self._names()
        kinds = (("HGETALL", "node"), ("HVALS", "leases"))
        asked = [(command, f"{self.prefix}{kind}:{name}") for name in names for command, kind in kinds]
        speeds = self.speeds()
        (seconds, micros), *found = self._read_all(("TIME",), *asked)
        now_s = int(seconds) + int(micros) / 1e6
        out = []
        for name, got, leases in zip(names, found[::2], found[1::2], strict=True):
            h = fields_of(got)
            used = sum(float(text(v).split()[0]) for v in leases)
            mine = {task: s[h["board"]] for task, s in speeds.items() if h.get("board") in s}
            out.append(rows.node_row(name, h, used=used, now_s=now_s, speed=mine))
        return out

    def door(self, node: str) -> str:
        """Return where a node's HTTP port is and what opens it; "": it is not known."""
        return text(self._read("HGET", f"{self.prefix}node:{node}", "door"))

    def speeds(self) -> dict[str, dict[str, float]]:
        """Return the learned speeds: task name -> board -> factor."""
        routes = sorted(self._hash("routes").items())
        return {field[1:]: json.loads(said) for field, said in routes if field.startswith("=")}

    def loaded(self) -> dict[str, set[str]]:
        """Return the names of the tasks that each known node has loaded."""
        nodes = self._names()
        found = self._read_all(*(("SMEMBERS", f"{self.prefix}tasks:{node}") for node in nodes))
        return {node: {text(task) for task in tasks} for node, tasks in zip(nodes, found, strict=True)}

    def knowers(self, name: str) -> int:
        """Return how many nodes know a task: live ones, or, where none is scarce of it, all."""
        few = self._read("HGET", f"{self.prefix}routes", f"?{name}")
        return sum(name in tasks for tasks in self.loaded().values()) if few is None else int(few)

    def declare(self, options: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Keep what tasks ask for (``jetq`` options by task name; None: nothing), for producers without their code."""
        known = self._hash("declared")
        want = {name: json.dumps(dict(wanted)) for name, wanted in options.items() if wanted}
        gone = [name for name in options if name in known and name not in want]
        new = {name: text for name, text in want.items() if known.get(name) != text}
        if gone or new:
            self._together(
                *(("HDEL", f"{self.prefix}declared", name) for name in gone),
                *(("HSET", f"{self.prefix}declared", name, text) for name, text in new.items()),
                ("HSET", f"{self.prefix}routes", "declared", ids.random64()),
            )

    def declared(self, name: str) -> dict[str, Any]:
        """Return what nodes say that a task asks for."""
        said = self._read("HGET", f"{self.prefix}declared", name)
        return dict(json.loads(said)) if said else {}

    def cancel(self, job_id: str, reason: str) -> JobRow:
        """Cancel a job.

        Raises:
            NoSuchJob: unknown id.
        """
        if not self._run("cancel", job_id, cut(reason), *seed(), self._ttl_s):
            raise NoSuchJob(job_id)
        row = self.job(job_id)
        if row is None:
            raise NoSuchJob(job_id)
        return row

    def queues(self) -> dict[str, int]:
        """Return how many messages each queue holds, all priorities summed."""
        names = [keys.shared_queue(text(c)) for c in self._read("HKEYS", f"{self.prefix}cohorts")]
        names += [keys.own_queue(lane, node) for node in self._names() for lane in keys.OWN_QUEUE]
        lists = [(queue, keys.with_priority(queue, step)) for queue in names for step in PRIORITY_STEPS]
        counts = dict.fromkeys(names, 0)
        lengths = self._read_all(*(("LLEN", self.prefix + key) for _, key in lists))
        for (queue, _), length in zip(lists, lengths, strict=True):
            counts[queue] += int(length)
        return counts


def _sure(answer: int) -> int:
    if answer < 0:
        raise BrokerUnsure
    return answer
