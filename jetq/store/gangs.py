"""The ledger's part for gangs: submit, reserve, meet, end, and what the scheduler looks at. Part of ``RedisStore``."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from jetq.errors import UsageError
from jetq.model.camera_uri import LOCAL
from jetq.model.gang import GangSpec
from jetq.model.job import JobState
from jetq.model.members import MEMBER_TASK, Foreseen, GangView, Kept, MemberView, Report
from jetq.policy.rooms import HeldJob, NodeRoom, room
from jetq.policy.timetable import Room
from jetq.store import orders
from jetq.store.base import Placed
from jetq.store.blobs import BLOB_TTL_S
from jetq.store.leading import seed
from jetq.store.link import Link, fields_of, text


class GangSide(Link):
    """The role ``GangScheduling`` of ``store.ganging``, and what a producer asks."""

    # A producer -----------------------------------------------------------------------------------------------------

    def submit_gang(
        self, job_id: str, spec: GangSpec, template: str, *, over_streams: bool = False, keep: bool = False
    ) -> Placed:
        """Take a gang into the queue.

        Args:
            template: the members' message, with ``@jetq-id@`` and ``@jetq-pub@`` where each has its own.
            over_streams: streams may be moved for it. keep: its members leave their folders.
        """
        plain = json.dumps(spec.as_json(), sort_keys=True)
        flags = ("1" if over_streams else "", "1" if keep else "")
        got = self._run(
            "submit_gang",
            *(job_id, orders.digest(spec.name, plain, spec.needs), spec.name, spec.priority, plain),
            *(orders.lease(spec.needs, "gang"), template, *flags, spec.workdir or "", BLOB_TTL_S),
        )
        verdict, state, why = text(got).split("\t")
        return Placed(job_id, cast(Any, verdict), state, None, why)

    # The scheduler --------------------------------------------------------------------------------------------------

    def wait_for_bell(self, within_s: float) -> bool:
        """Return once somebody has rung for whoever leads. False: nobody has."""
        return bool(self._read("BLPOP", f"{self.prefix}bell", f"{within_s:.3f}"))

    def gangs(self) -> list[GangView]:
        """Return all gangs that have not ended, oldest first."""
        waiting = [text(x) for x in self._read("ZRANGE", f"{self.prefix}gangs", 0, -1)]
        if not waiting:
            return []
        asked = [("HGETALL", f"{self.prefix}{kind}:{job}") for job in waiting for kind in ("job", "gang")]
        found = [fields_of(got) for got in self._read_all(*asked)]
        records = {job: (found[2 * i], found[2 * i + 1]) for i, job in enumerate(waiting) if found[2 * i].get("spec")}
        members = {job: list(json.loads(r.get("parts") or "[]")) for job, (r, _) in records.items()}
        everybody = [member for those in members.values() for member in those]
        views = dict(zip(everybody, self._members(everybody), strict=True))
        names = sorted({record["name"] for record, _ in records.values()})
        runs = self._read_all(*(("LRANGE", f"{self.prefix}gang.runs:{name}", 0, 1) for name in names)) if names else []
        lasted = {name: tuple(float(x) for x in times) for name, times in zip(names, runs, strict=True)}
        found_gangs = []
        for job, (record, said) in records.items():
            try:
                mine = [views[member] for member in members[job]]
                found_gangs.append(gang_view(job, record, said, mine, lasted[record["name"]]))
            except (UsageError, TypeError, ValueError, KeyError) as exc:  # of another version; it holds up no other
                self._run(
                    "cancel", job, f"this version of jetq cannot read what it asks for: {exc}", *seed(), self._ttl_s
                )
        return found_gangs

    def rooms(self) -> list[Room]:
        """Return all nodes that are there, and who holds what on them until when."""
        names = self._names()
        kinds = (("HGETALL", "node:{}"), ("HGETALL", "leases:{}"), ("SISMEMBER", "tasks:{}", MEMBER_TASK))
        asked = [(kind[0], self.prefix + kind[1].format(name), *kind[2:]) for name in names for kind in kinds]
        (seconds, micros), *found = self._read_all(("TIME",), *asked)
        now_s = int(seconds) + int(micros) / 1e6
        nodes = [
            NodeRoom(name, fields_of(found[3 * i]), fields_of(found[3 * i + 1]), bool(found[3 * i + 2]))
            for i, name in enumerate(names)
        ]
        held = self._held_jobs({job: node.record.get("board", "") for node in nodes for job in node.leases})
        return [room(node, held, now_s) for node in nodes if node.is_there]

    def reserve(self, epoch: str, term: int, gang: GangView, nodes: Sequence[str], why: str) -> str:
        """Start a gang on all these nodes, the head first, or not at all.

        Returns "" where that was done, "gone" where it is not this gang's turn any more, else a node without room.
        """
        return text(self._run("reserve", epoch, term, gang.id, gang.starts, *seed(), why, *nodes))

    def stop_gang(self, epoch: str, term: int, gang: GangView, why: str) -> bool:
        """Ask all members of a gang's start to end. False: the term or that start is over."""
        return bool(self._run("stop_gang", epoch, term, gang.id, gang.starts, why, random.random(), self._ttl_s))

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
        """End a gang whose members have all ended, or put it back into the queue, with its age.

        Args:
            exit_code, tail: of what failed first. tally: what it has used up of its retries.
            not_before_s: of its next start. bounds: the least and most nodes of that; None: as asked.
        """
        code = "" if exit_code is None else exit_code
        least, most = bounds or ("", "")
        return bool(
            self._run(
                "end_gang",
                *(epoch, term, gang.id, gang.starts, state.value, why, code, json.dumps(list(tail)) if tail else ""),
                *(json.dumps(dict(tally or {})), "" if not_before_s is None else not_before_s, least, most),
                *(random.random(), self._ttl_s),
            )
        )

    def foresee(self, epoch: str, term: int, kept: Sequence[Kept], said: Sequence[Foreseen]) -> bool:
        """Keep room free on nodes (nothing any more where ``kept`` says so), and say what is expected of gangs."""
        words: list[Any] = [word for k in kept for word in (k.node, k.as_text())]
        words += [w for f in said for w in (f.gang_id, "" if f.expected_s is None else f"{f.expected_s:.3f}", f.why)]
        return bool(self._run("foresee", epoch, term, random.random(), len(kept), *words))

    # --------------------------------------------------------------------------------------------------------------

    def _members(self, member_ids: Iterable[str]) -> list[MemberView]:
        found = self._read_all(*(("HGETALL", f"{self.prefix}job:{member}") for member in member_ids))
        return [member_view(member, fields_of(got)) for member, got in zip(member_ids, found, strict=True)]

    def _held_jobs(self, board_of: Mapping[str, str]) -> dict[str, HeldJob]:
        """Return what predicts the ends of jobs that hold leases. ``board_of``: job id -> board."""
        fields = ("kind", "name", "started_at", "whole")
        rows = self._texts({job: ("HMGET", f"{self.prefix}job:{job}", *fields) for job in board_of})
        gangs = {row[3] for row in rows.values() if row[3]}
        known = self._texts({gang: ("HMGET", f"{self.prefix}job:{gang}", "name", "spec") for gang in gangs})
        key_of = {
            job: f"gang.runs:{known[gang][0]}" if gang else f"runs:{name}:{board_of[job]}"
            for job, (_kind, name, _at, gang) in rows.items()
        }
        runs = self._texts({key: ("LRANGE", self.prefix + key, 0, 19) for key in set(key_of.values())})
        return {
            job: HeldJob(
                kind or "task",
                _float(at),
                tuple(float(run) for run in runs[key_of[job]]),
                _limit(known.get(whole)),
                whole,
                kind == "stream" and known[whole][0].partition(":")[0] in LOCAL,
            )
            for job, (kind, _name, at, whole) in rows.items()
        }

    def _texts(self, asked: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
        """Return the answers to reads that give lists, by name, in one go."""
        found = self._read_all(*asked.values()) if asked else []
        return {name: [text(word) for word in got] for name, got in zip(asked, found, strict=True)}


def gang_view(
    job_id: str,
    record: Mapping[str, str],
    said: Mapping[str, str],
    members: Sequence[MemberView],
    runs: tuple[float, ...],
) -> GangView:
    """Return a gang from its record, what its members have said, and their own records."""
    spec = GangSpec.from_json(json.loads(record["spec"]))
    return GangView(
        id=job_id,
        spec=spec,
        state=JobState(record["state"]),
        submitted_s=float(record["at"]),
        starts=int(record.get("starts") or 0),
        attempt=int(record.get("attempt") or 0),
        over_streams=bool(record.get("over")),
        cancel_asked=bool(record.get("cancel_asked")),
        stopping=record.get("stopping", ""),
        reserved_s=_float(record.get("reserved_at")),
        started_s=_float(record.get("started_at")),
        not_before_s=_float(record.get("not_before")) or 0.0,
        least=int(record.get("least") or spec.min_nodes),
        most=int(record.get("most") or spec.max_nodes),
        tally=json.loads(record.get("tally") or "{}"),
        members=tuple(members),
        arrived=frozenset(int(key.partition(".")[2]) for key in said if key.startswith("hello.")),
        shared=bool(record.get("shared")),
        runs_s=runs,
        reason=record.get("reason", ""),
    )


def member_view(job_id: str, record: Mapping[str, str]) -> MemberView:
    """Return a member from its record. One that is not there any more was lost."""
    state = JobState(record.get("state") or "FAILED")
    result = record.get("result", "")
    report, unreadable = None, ""
    if state is JobState.SUCCEEDED:
        try:
            report = Report.parse(result)
        except (ValueError, TypeError, KeyError) as exc:
            unreadable = f"its report cannot be read: {exc}"
    return MemberView(
        job_id,
        int(record.get("index") or 0),
        record.get("node", ""),
        state,
        report,
        unreadable or record.get("error") or record.get("reason") or ("" if record else "its record is gone"),
        cast(Any, record.get("cost") or ("app" if record else "infra")),  # its body raised; its record is gone
        _float(record.get("lost_at")) or _float(record.get("finished_at")) or 0.0,
    )


def _limit(gang: Sequence[str] | None) -> float | None:
    limit = json.loads(gang[1]).get("time_limit_s") if gang and gang[1] else None
    return None if limit is None else float(limit)


def _float(value: str | None) -> float | None:
    return float(value) if value else None
