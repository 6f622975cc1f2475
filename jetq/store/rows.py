"""Read the ledger's hashes as the rows that people and programs see. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jetq.model.beat import NodeRow
from jetq.model.job import JobRow
from jetq.model.needs import spoken, task_of
from jetq.model.survey import ABSENT

#: A node whose last beat is older than this share of its ``dead_s`` (3 s of 5) is shown as stale.
STALE = 0.6
#: What a node's row says where it has not said its own (s).
DEAD_S = 5.0
#: States of a node that somebody gave a reason for.
_EXPLAINED = {
    **dict.fromkeys(("draining", "drained"), "drain_why"),
    **dict.fromkeys(("failing", "suspect", "dead"), "why"),
}
#: A job's record leaves out what most jobs have; this is its kind.
USUAL_KIND = "task"


def job_row(job_id: str, h: Mapping[str, str], now_s: float | None = None) -> JobRow:
    """Return the row of one record. ``now_s``: Redis clock, for streams."""
    return JobRow(
        id=job_id,
        kind=h.get("kind", USUAL_KIND),
        name=h.get("name", ""),
        state=h["state"],
        nodes=[h["node"]] if h.get("node") else (h.get("nodes") or "").split(),
        attempts=int(h.get("attempts") or 0),
        submitted_at=_float(h.get("at")),
        started_at=_float(h.get("started_at")),
        finished_at=_float(h.get("finished_at")),
        result=_json(h.get("result")),
        error=h.get("error") or None,
        reason=(None if waits_for_task(h) else h.get("reason")) or _why_waiting(h),
        history=_json(h.get("history")) or [],
        expected_at=_float(h.get("expected_at")) if h["state"] == "QUEUED" else None,
        progress=_json(h.get("progress")),
        exit_code=0 if _json(h.get("result")) == {"code": 0} and "spec" in h else _whole(h.get("exit_code")),
        tail=_json(h.get("tail")) or [],
        telemetry=_telemetry(h, now_s) if h.get("kind") == "stream" else None,
        stream=_stream(h) if h.get("kind") == "stream" and "spec" in h else None,
        result_kept=not h.get("unkept"),
    )


def _telemetry(h: Mapping[str, str], now_s: float | None) -> dict[str, Any] | None:
    """Return what a stream's node last said of it, and how long ago that was."""
    told: dict[str, Any] | None = _json(h.get("telemetry"))
    told_at = _float(h.get("told_at"))
    if told is None or told_at is None or now_s is None:
        return told
    return {**told, "age_s": round(max(0.0, now_s - told_at), 1)}


def _stream(h: Mapping[str, str]) -> dict[str, Any]:
    seats = {seat: h.get(seat) or None for seat in ("owner", "heir")}
    return {"spec": _json(h["spec"]), "version": int(h.get("version") or 1), **seats}


def node_row(name: str, h: Mapping[str, str], *, used: float, now_s: float, speed: dict[str, float]) -> NodeRow:
    """Return the row of one node. ``now_s``: Redis clock; ``speed``: task name -> learned speed of its board."""
    beat_at = _float(h.get("beat_at"))
    age_s = None if beat_at is None else max(0.0, now_s - beat_at)
    state = h.get("state", "gone")
    if state not in ABSENT and (age_s is None or age_s > STALE * (_float(h.get("dead_s")) or DEAD_S)):
        state = "stale"
    if state == "draining" and not used and h.get("drain"):
        state = "drained"
    return NodeRow(
        name=name,
        state=state,
        slots=int(h.get("slots") or 0),
        used=used,
        weight=float(h.get("weight") or 0),
        speed=speed,
        trim=float(h.get("trim") or 1),
        labels=(h.get("labels") or "").split(),
        board=h.get("board", ""),
        beat_age_s=age_s,
        metrics=_json(h.get("metrics")) or {},
        identity=h.get("identity", ""),
        epoch=h.get("epoch", ""),
        version=h.get("version", ""),
        why=_why_out(state, h),
        running=[job for job, _claimer in _json(h.get("running")) or []],
        address=h.get("address", ""),
        cores=int(h.get("cores") or 0),
        gpu=int(h.get("gpu") or 0),
    )


def _why_out(state: str, h: Mapping[str, str]) -> str:
    """Return why a node gets no new work, where somebody said so."""
    field = _EXPLAINED.get(state)
    return h.get(field, "") if field else ""


def waits_for_task(h: Mapping[str, str]) -> bool:
    """Tell whether a record is of a job that waits for one of the few nodes that know its task."""
    return h.get("state") == "QUEUED" and task_of(h.get("cohort", "")) is not None


def _why_waiting(h: Mapping[str, str]) -> str | None:
    """Return why a job waits. A record may hold, as ``knowers``, how many nodes know its task."""
    if h["state"] == "WAITING":
        return "its time has not come"
    if h["state"] != "QUEUED":
        return None
    if "spec" in h:
        return "the leader has not looked at it yet"
    asked = spoken(h.get("cohort", ""))
    of_those = f" ({asked})" if asked else ""
    if not waits_for_task(h):
        return f"no eligible node has a free slot{of_those}"
    if h.get("knowers") == "0":
        return "no live node knows its task"
    return f"no node that knows its task has a free slot{of_those}"


def _float(text: str | None) -> float | None:
    return float(text) if text else None


def _whole(text: str | None) -> int | None:
    return int(text) if text else None


def _json(text: str | None) -> Any:
    return json.loads(text) if text else None
