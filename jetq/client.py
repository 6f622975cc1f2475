"""The Python way in: `JetQ` sends work and asks about it, `Job` is one piece of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jetq import ids, wire
from jetq import video as films
from jetq.addresses import address_towards
from jetq.broker import seen
from jetq.config import Settings
from jetq.errors import BrokerDown, PublishUnknown, UsageError
from jetq.gangs import GangSide
from jetq.job import Job, sent
from jetq.model import needs as needs_of
from jetq.model.beat import NodeRow
from jetq.model.job import JobRow
from jetq.model.needs import ONNX_LABEL, Needs
from jetq.policy import admission, strategies
from jetq.streams import StreamSide

#: What is known of the nodes is asked again after so long (s).
_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """Where, when and how a job runs."""

    labels: Sequence[str] = ()  # all of them must be carried by the node
    gpu: int = 0  # 1 holds the node's GPU for this job alone
    mem_bytes: int = 0  # memory the job declares; it is not measured
    slots: float = 1  # units of concurrent work
    strategy: str | None = None  # how to choose the node; None: the cluster's
    priority: str | int | None = None  # urgent, normal or low
    countdown_s: float | None = None  # not before this long from now
    expires_s: float | None = None  # not started after this long from now
    wait_for_node: bool = False  # accept needs that no node can serve, or a task that no node knows, yet
    durable: bool = False  # return only once the broker has it on its disk: survives a power cut of its machine

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise UsageError(f"labels must be a list of labels, not {self.labels!r}; write [{self.labels!r}]")
        object.__setattr__(self, "labels", self.needs.labels)
        object.__setattr__(self, "priority", needs_of.priority(self.priority))
        if self.strategy is not None:
            strategies.get(self.strategy)
        for what in ("countdown_s", "expires_s"):
            value = getattr(self, what)
            if value is not None and not 0 <= value < float("inf"):
                raise UsageError(f"{what[:-2]} must be a number of seconds, 0 or more, not {value}")

    @property
    def needs(self) -> Needs:
        """What the job holds on its node."""
        return Needs(tuple(self.labels), float(self.slots), self.gpu, self.mem_bytes)

    def plain(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


class JetQ(GangSide, StreamSide):
    """A cluster, seen by somebody who has work for it. Needs no task code: work is sent by name."""

    def __init__(self, broker: str | None = None, **settings: Any) -> None:
        """Connect to a cluster.

        Args:
            broker: URL; None: ``JETQ_BROKER_URL``, else the `jetq up` that runs on this machine.
            settings: fields of :class:`jetq.Settings`, for example ``cluster="yard"``.

        Raises:
            UsageError: a bad setting, or no broker anywhere.
            BrokerDown, BrokerUnfit: the broker cannot be used.
        """
        asked = Settings.from_environ(broker_url=broker, **settings)
        self._open(asked.with_(broker_url=wire.broker_url(asked)))

    @classmethod
    def over(cls, settings: Settings) -> JetQ:
        """Return a client of settings whose broker is named and checked already."""
        made = cls.__new__(cls)
        made._open(settings)
        return made

    def _open(self, settings: Settings) -> None:
        self.settings = settings
        self._store = wire.open_store(settings, settings.broker_url)
        self._producer = wire.Producer(settings, self._store)
        self._nodes: list[NodeRow] = []
        self._loaded: dict[str, set[str]] = {}  # node -> task names
        self._asked_s = float("-inf")

    def submit(
        self,
        name: str,
        *args: Any,
        job_id: str | None = None,
        labels: Sequence[str] = (),
        gpu: int = 0,
        mem_bytes: int = 0,
        slots: float = 1,
        strategy: str | None = None,
        priority: str | int | None = None,
        countdown: float | None = None,
        expires: float | None = None,
        wait_for_node: bool = False,
        durable: bool = False,
        **kwargs: Any,
    ) -> Job:
        """Send one task and return its job. What is no option (:class:`Options`) is the task's own argument.

        A task whose arguments have the names of options is sent by :meth:`send`, which also lists the errors.
        """
        options = Options(
            *(labels, gpu, mem_bytes, slots, strategy, priority, countdown, expires),
            wait_for_node=wait_for_node,
            durable=durable,
        )
        return self.send(name, args, kwargs, options, job_id=job_id)

    def send(
        self,
        name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Options | None = None,
        *,
        job_id: str | None = None,
    ) -> Job:
        """Send one task and return its job.

        Args:
            name: task name, for example ``yard.count``.
            args, kwargs: the task's arguments: anything JSON can hold.
            options: where, when and how it runs.
            job_id: same id, same work: sending it again is safe and sends nothing twice.

        Raises:
            UsageError: arguments that are not JSON or too large, or a task no node knows.
            NoNodeCarries: no node that is there and knows the task can ever serve what it needs.
            PublishRefused: the id is in use for other work.
            NotDurable: with ``durable``: it is taken, but not known to be on the broker's disk.
            PublishUnknown: the broker did not answer; send it again with the id in the error.
        """
        asked = options or Options()
        known_as = ids.job_id(job_id) if job_id is not None else ids.new_job_id()
        try:
            self._admit(name, asked)
        except BrokerDown as exc:  # nothing was sent; whoever sends it again does so under one id from the start
            raise PublishUnknown(known_as) from exc
        return sent(self._store, self._producer.submit(name, (args, kwargs or {}), asked.plain(), job_id=known_as))

    def submit_many(
        self, name: str, calls: Sequence[Sequence[Any] | Mapping[str, Any]], options: Options | None = None, **more: Any
    ) -> list[Job]:
        """Send one task many times, 200 in a script, and return the jobs in the order of ``calls``.

        Args:
            name: task name.
            calls: the positional arguments of each call, or a mapping of its keyword arguments.
            options: where, when and how they run; ``more`` are single fields of it (``labels=["gpu"]``).

        Raises:
            The errors of :meth:`send`. A bad call is named (``calls[217]: ...``), and so is the call from which on
            nothing was sent: they go in batches of 200, and those before are.
        """
        asked = replace(options or Options(), **more)
        self._admit(name, asked)
        pairs = [_arguments(index, call) for index, call in enumerate(calls)]
        return [sent(self._store, placed) for placed in self._producer.submit_many(name, pairs, asked.plain())]

    def video(self, files: Sequence[Path | str], out: Path | str = "out", **study: Any) -> films.Report:
        """Analyse videos (or folders of them) on all nodes and return what came of it (``study``: fields of `Study`).

        Raises:
            UsageError: a file is no video; nothing was sent. JobFailed: a chunk failed; nothing was written.
        """
        return self.analyze(films.prepare([Path(file) for file in files], films.Study(**study), Path(out)))

    def analyze(
        self, study: films.Prepared, options: Options | None = None, *, serve_on: str | None = None, **more: Any
    ) -> films.Report:
        """Carry out what `jetq.video.prepare` has checked (``more``: see `jetq.video.analyze_files`).

        ``serve_on``: this machine's address that nodes read the files from; None: the one that faces the broker.
        """
        needs = options or Options()
        if study.model is not None:
            needs = replace(needs, labels=[*needs.labels, ONNX_LABEL])
        crew = films.Crew(
            submit=lambda calls: self.submit_many(films.TASK, calls, needs),
            slots=sum(node.slots for node in self.nodes() if node.state == "up"),
            host=serve_on or address_towards(seen(self.settings)),
            shared=self.settings.shared,
        )
        return films.analyze_files(study, crew, **more)

    def job(self, job_id: str) -> Job:
        """Return the job of that id; nothing is asked yet."""
        return Job(self._store, ids.job_id(job_id))

    def jobs(self, limit: int = 1000) -> list[JobRow]:
        """Return the newest jobs, newest first, ended ones included."""
        return self._store.jobs(limit)

    def nodes(self) -> list[NodeRow]:
        """Return all known nodes by name."""
        return self._store.nodes()

    def _admit(self, name: str, options: Options) -> None:
        """Refuse what no node knows or can ever serve. Old knowledge is renewed before it refuses anything."""
        self._look(renew=False)
        if self._fault(name, options) is not None:
            self._look(renew=True)
            fault = self._fault(name, options)
            if fault is not None:
                raise fault

    def _fault(self, name: str, options: Options) -> UsageError | None:
        if options.wait_for_node:
            return None
        unknown = admission.unknown(name, self._loaded)
        return unknown or admission.unserved(name, options.needs, self._nodes, self._loaded)

    def _look(self, *, renew: bool) -> None:
        now_s = time.monotonic()
        if renew or now_s - self._asked_s > _FRESH_S:
            self._nodes, self._loaded, self._asked_s = self._store.nodes(), self._store.loaded(), now_s


def _arguments(index: int, call: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return one of many calls as positional and named arguments."""
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, str | bytes) or not isinstance(call, Iterable):
        raise UsageError(
            f"calls[{index}] must be a list of arguments or a mapping of named ones, not {call!r:.80}; nothing was sent"
        )
    return list(call), {}
