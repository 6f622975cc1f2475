"""Claim before a task's tracer, finish around its body, settle after: two wraps per task."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import Celery, Task
from celery.app.trace import TraceInfo, build_tracer, trace_ok_t
from celery.exceptions import Ignore, Reject, Retry
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps, loads

from jetq import ids
from jetq.engine import current
from jetq.engine.surroundings import Surroundings
from jetq.log import Log
from jetq.page import Slot
from jetq.service.patience import patiently
from jetq.service.stopping import Stops
from jetq.store.base import Lane

log = Log("run")
#: What a refused claim says to the parent, which acknowledges the message and does nothing else.
REFUSED, FULL = "jetq: refused", "jetq: full"
#: What celery.Task.replace raises; the id lives on in the task that replaced it.
_REPLACED = "Replaced by new task"
#: What helps against a result that is too large.
_WAY_OUT = 'let the task write a file, or raise JETQ_MAX_RESULT_BYTES or its option jetq={"max_result_bytes": ...}'
_FOLLOWERS = ("callbacks", "errbacks", "chain", "chord")


class Tracer:
    """Wraps the tasks of one process: a pool child, or a lane of threads."""

    def __init__(
        self,
        app: Celery,
        store: Lane,
        node: str,
        epoch: str,
        *,
        slots: list[Slot],
        folds: bool,
        around: Surroundings | None,
        stops: Stops | None = None,
    ) -> None:
        """Run jobs of ``node`` for one ``epoch``.

        Args:
            app: whose tasks are wrapped. store: the ledger.
            slots: of the lane's page, one for each thread that may run a job.
            folds: whether results may be stored by the script that ends the job.
            around: what a body finds around it; None where several run at a time.
            stops: the runs that are threads of this process; None where signals end them.
        """
        self._app, self._store, self._node, self._epoch = app, store, node, epoch
        self._slots, self._folds, self._around, self._stops = slots, folds, around, stops

    def wrap_all(self, hostname: str | None) -> None:
        """Rebuild the tracer of every task of the app, ours around it."""
        for name, task in list(self._app.tasks.items()):
            if not getattr(task.__trace__, "_jetq", False):
                inner = build_tracer(name, self._private(task), self._app.loader, hostname, app=self._app)
                task.__trace__ = self._outer(inner)

    # Around the body ------------------------------------------------------------------------------------------------

    def _private(self, task: Task) -> Task:
        """Return a twin of the task whose body is wrapped; user code that calls the task directly never meets it."""
        cls = type(task)
        custom = cls.__call__ is not Task.__call__ and not getattr(cls.__call__, "__module__", "").startswith("celery.")
        own = task.__call__ if custom else task.run
        body = self._inner(_kept_in(own) if self._stops else own)
        members: dict[str, Any] = {"__module__": cls.__module__, "run": property(lambda _self: body)}
        if custom:
            members["__call__"] = lambda _self, *args, **kwargs: body(*args, **kwargs)
        twin: Task = object.__new__(type(cls.__name__, (cls,), members))
        twin.__dict__ = task.__dict__
        return twin

    def _inner(self, body: Callable[..., Any]) -> Callable[..., Any]:
        def traced_body(*args: Any, **kwargs: Any) -> Any:
            run = current.run()
            if run is None or run.entered:
                return body(*args, **kwargs)
            run.entered = True
            if run.outcome:
                run.value = self._replay(run.outcome)
                return run.value
            try:
                run.value = body(*args, **kwargs)
            except (Retry, Ignore, Reject):
                raise
            except Exception as exc:  # the body's own failure is an outcome
                self._finish(run, "error", self._app.backend.prepare_exception(exc, "json"))
                raise
            self._finish(run, "value", run.value)
            return run.value

        return traced_body

    def _finish(self, run: current.Run, how: str, value: Any) -> None:
        if not run.follows:
            return
        try:
            text = dumps({how: value})
        except (EncodeError, TypeError, ValueError):
            return  # Celery refuses to publish such a value too, and fails the job with its reason
        if not patiently(self._store.finish, run.job_id, run.token, run.claimer, text):
            run.refused = True
            raise Ignore(REFUSED)

    def _replay(self, outcome: str) -> Any:
        kept = loads(outcome)
        if "error" in kept:
            raise self._app.backend.exception_to_python(kept["error"])
        return kept["value"]

    # Around the tracer ----------------------------------------------------------------------------------------------

    def _outer(self, trace: Callable[..., Any]) -> Callable[..., Any]:
        def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
            request = request or {}
            pub = request.get("jetq_pub")
            if pub is None:
                return trace(uuid, args, kwargs, request)
            slot, claimer = self._slots.pop(), f"{os.getpid()}.{ids.random64()}"
            stop = self._stops.open(claimer, uuid) if self._stops else None
            try:
                run = self._claim(slot, claimer, uuid, pub, request)
                if stop is not None and isinstance(run, current.Run):
                    run.stop = stop
                return _ignored(run) if isinstance(run, str) else self._run(run, trace, uuid, args, kwargs, request)
            finally:
                slot.clear()
                self._slots.append(slot)
                if self._stops:
                    self._stops.close(claimer)

        traced._jetq = True  # type: ignore[attr-defined]
        return traced

    def _run(self, run: current.Run, trace: Callable[..., Any], *call: Any) -> Any:
        before = current.enter(run)
        try:
            if self._around is None:
                answer = trace(*call)
            else:
                self._around.enter(run)
                try:
                    answer = trace(*call)
                finally:
                    self._around.leave()
            self._settle(run, answer)
        finally:
            current.enter(before)
        return answer

    def _claim(self, slot: Slot, claimer: str, job_id: str, pub: str, request: dict[str, Any]) -> current.Run | str:
        slot.hold(job_id, pub, claimer)
        claim = patiently(self._store.claim, job_id, pub, self._node, self._epoch, claimer)
        if claim.verdict == "full":
            return FULL
        if claim.verdict == "refused":
            log.info("claim.refused", job=job_id, why=claim.why)
            return f"{REFUSED} ({claim.why})"
        slot.hold(job_id, pub, claimer, claim.token)
        follows = any(request.get(k) for k in _FOLLOWERS)
        most_bytes = (request.get("jetq") or {}).get("max_result_bytes") or self._app.conf.jetq_max_result_bytes
        return current.Run(
            job_id, claim.token, claimer, claim.attempt, follows, claim.outcome, self._folds, int(most_bytes)
        )

    def _settle(self, run: current.Run, answer: Any) -> None:
        info = answer.info
        state, error, value = "SUCCEEDED", "", run.value
        if info is not None and info.state == "RETRY":
            return  # the retry was published, and thereby owns the job
        if info is not None and info.state == "IGNORED":
            if run.refused:
                return
            state, value = ("WAITING" if str(info.retval) == _REPLACED else "SUCCEEDED"), None
        elif info is not None and info.state == "REJECTED":
            if info.retval.requeue:
                patiently(self._store.lost, run.job_id, self._node, run.claimer, "rejected by its task", then="again")
                return
            state, error = "FAILED", f"rejected: {info.retval.reason}"
        elif info is not None:
            state, error = "FAILED", _describe(info.retval)
        result = ""
        if state == "SUCCEEDED":
            result, error = _kept(value, run.most_bytes)
        ended = patiently(
            self._store.settle,
            *(run.job_id, run.token, run.claimer, state),
            result=result,
            error=error,
            stored=run.stored,
        )
        if not ended:
            log.info("settle.refused", job=run.job_id, state=state)


def _kept_in(body: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a body that runs in a thread: Celery would never hear of one that left by SystemExit, nor free its place."""

    def threaded(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except SystemExit as exc:
            raise RuntimeError(f"its body called sys.exit({exc.code!r}), but no process here is its own") from exc

    return threaded


def _describe(exc: Any) -> str:
    return f"{type(exc).__name__}: {exc}" if isinstance(exc, BaseException) else str(exc)


def _kept(value: Any, most_bytes: int) -> tuple[str, str]:
    """Return a result as the ledger keeps it, or "" and why it does not: the job is done, whatever became of that."""
    try:
        text = str(dumps(value))
    except (EncodeError, TypeError, ValueError):
        return "", "its result is not JSON, so it was not kept"
    if len(text) <= most_bytes:
        return text, ""
    return "", f"its result has {len(text)} bytes, more than {most_bytes}, so it was not kept: {_WAY_OUT}"


def _ignored(why: str) -> Any:
    try:
        raise Ignore(why)
    except Ignore as exc:
        return trace_ok_t(ExceptionInfo(internal=True), TraceInfo("IGNORED", exc), 0.0, None)
