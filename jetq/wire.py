"""The composition root: settings become a store, an app, a node. The only file with imports inside functions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jetq.config import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from celery import Celery

    from jetq.engine.produce import Call
    from jetq.model.claim import Ended
    from jetq.probe.base import Probe
    from jetq.service.agent import Agent
    from jetq.service.cooling import Cooling
    from jetq.service.jobfiles.node import JobFiles
    from jetq.service.post import Post
    from jetq.service.runners import Runners
    from jetq.store.base import Delivery, Placed
    from jetq.store.redis import RedisStore

#: Schemes of a broker that can be jetq's.
_REDIS = frozenset({"redis", "rediss", "sentinel", "unix", "redis+socket"})


def broker_url(settings: Settings) -> str:
    """Return the broker to use, found and checked.

    Raises:
        UsageError: none was named and no ``jetq up`` runs here. BrokerError: it cannot be used.
    """
    from jetq import broker

    url = broker.find(settings)
    broker.check(url)
    return url


def open_store(settings: Settings, url: str | None = None, *, answer_s: float | None = None) -> RedisStore:
    """Return the ledger.

    Args:
        settings: the cluster's.
        url: of a broker that was checked before; None: find and check it.
        answer_s: patience for one answer, without a second try; None: as long as work may wait.
    """
    from jetq.store.redis import RedisStore, connect

    patience: dict[str, Any] = {} if answer_s is None else {"timeout_s": answer_s, "retries": 0}
    client = connect(url or broker_url(settings), **patience)
    return RedisStore(client, settings.cluster, ttl_s=settings.result_ttl_s)


class Producer:
    """Sends jobs of one cluster. The Celery app behind it is made for the first of them."""

    def __init__(self, settings: Settings, store: RedisStore) -> None:
        """Send through the broker that ``settings`` name; it was checked before."""
        self._settings = settings
        self._store = store
        self._app: Celery | None = None

    def submit(self, name: str, call: Call, options: Mapping[str, Any], *, job_id: str | None) -> Placed:
        """Send one job (``options``: fields of ``engine.produce.Options``, which see for the errors)."""
        from jetq.engine import produce

        return produce.submit(self._made(), name, call, produce.Options(**options), job_id=job_id)

    def submit_many(self, name: str, calls: Sequence[Call], options: Mapping[str, Any]) -> list[Placed]:
        """Send many jobs of one task, 200 a script."""
        from jetq.engine import produce

        most = self._settings.max_arg_bytes
        return produce.submit_many(
            self._made(), self._store, name, calls, produce.Options(**options), max_arg_bytes=most
        )

    def part_template(self, kind: str, shown: Mapping[str, str]) -> str:
        """Return the message that members of gangs, or seats of streams, get (``engine.produce.part_template``)."""
        from jetq.engine import produce

        return produce.part_template(self._made(), kind, shown)

    def _made(self) -> Celery:
        if self._app is None:
            self._app = create_app(self._settings, self._settings.broker_url, stores=False, current=False)
        return self._app


def create_app(settings: Settings | None = None, url: str | None = None, **how: Any) -> Celery:
    """Return a Celery app that publishes through the ledger (``how``: see ``engine.app.create_app``)."""
    from jetq.engine import app as engine

    settings = settings or Settings.from_environ()
    return engine.create_app(settings, url or broker_url(settings), **how)


def install(app: Celery, settings: Settings | None = None) -> Celery:
    """Join an existing Celery app to the cluster, before its first publish: ``jetq.install(app)``.

    The broker is the app's own ``broker_url`` if it names a Redis, else the one jetq would find.
    """
    from jetq.engine import app as engine

    settings = with_own_broker(app, settings or Settings.from_environ())
    return engine.install(app, settings, broker_url(settings))


def with_own_broker(app: Celery, settings: Settings) -> Settings:
    """Return settings that name the app's own broker, where they name none and it is a Redis."""
    own = app.conf.get("jetq_url") or app.conf.broker_url
    if not settings.broker_url and own and own.split(":")[0] in _REDIS:
        return settings.with_(broker_url=own)
    return settings


def run_lane(app: Celery, **how: Any) -> int:
    """Run a lane in this process until it ends (``how``: see ``engine.lanes.run_lane``). Returns its exit code."""
    from jetq.engine import lanes

    if how["lane"] == "processes":
        from jetq.service import facts, member

        member.warm_up()
        if facts.has_video():
            _runners().warm_up()
    return lanes.run_lane(app, **how)


def run_member() -> dict[str, Any]:
    """Run the member of a gang that this thread's job is, to its end. Returns its report as plain values.

    Raises:
        UsageError: no job runs here, or it is no member of a gang.
    """
    from jetq.engine.request import LaneSide
    from jetq.service.member import Member

    settings = Settings.from_environ()
    return Member(LaneSide.store, _post("gang", settings, settings.gang_allow)).run().as_json()


def run_seat() -> dict[str, Any]:
    """Run the seat of a stream that this thread's job is, to its end. Returns how that was, as plain values.

    Raises:
        UsageError: no job runs here, or it is no seat of a stream.
    """
    from jetq.engine.request import LaneSide
    from jetq.service.stream_run import StreamRun

    settings = Settings.from_environ()
    post = _post("stream", settings, settings.stream_allow)
    return StreamRun(LaneSide.store, post, _runners(), _cooling()).run().as_json()


@cache
def _runners() -> Runners:
    """Return what starts the runners of this lane."""
    from jetq.service.runners import Runners

    return Runners()


@cache
def _cooling() -> Cooling:
    """Return how far the streams of this lane have stepped down."""
    from jetq.clock import boot_s
    from jetq.service.cooling import Cooling

    return Cooling(clock=boot_s)


def _post(kind: str, settings: Settings, allowed: tuple[str, ...]) -> Post:
    """Return where this thread's job runs.

    Raises:
        UsageError: none does.
    """
    import os
    from pathlib import Path

    from jetq.engine import current
    from jetq.engine.request import LaneSide
    from jetq.errors import UsageError
    from jetq.service.jobfiles.folders import JOBS_DIR
    from jetq.service.post import Post

    here = current.run()
    if here is None or here.stop is None:
        what = "gang.member" if kind == "gang" else "stream.run"
        raise UsageError(f"{what} runs on a node's processes lane alone; start a {kind} with `jetq {kind}`")
    jobs_dir = os.environ.get(JOBS_DIR)
    return Post(
        here.job_id,
        here.token,
        LaneSide.node,
        here.stop,
        settings.broker_url or "",
        Path(jobs_dir) if jobs_dir else None,
        settings.shared,
        allowed,
        settings.files_max_bytes,
    )


def open_probe() -> Probe:
    """Return what reads this machine."""
    from jetq.probe.linux import LinuxProbe

    return LinuxProbe()


def build_agent(settings: Settings, mark: str, make_app: Callable[[], Celery], *, rejoins: bool = False) -> Agent:
    """Return the agent of the node that ``settings`` name, under a new epoch.

    Args:
        settings: with the broker's URL, checked, and the node's name.
        mark: marker of this run's processes.
        make_app: gives the node's Celery app; called when Celery first has to be told of something.
        rejoins: whether the run before had to give up.
    """
    from jetq import ids
    from jetq.clock import boot_s
    from jetq.model.address import Address
    from jetq.service.agent import Agent
    from jetq.service.facts import node_facts
    from jetq.service.jobfiles.node import JobFiles
    from jetq.service.jobfiles.server import own_address
    from jetq.service.reach import Reach

    probe = open_probe()
    name = settings.node or ""
    address = own_address(settings.http, settings.broker_url or "")
    facts = node_facts(settings, probe.machine(), name=name, epoch=ids.random64(), address=address)
    store = open_store(settings, settings.broker_url)
    files = JobFiles(settings, lambda job_id: store.job(job_id) is not None)
    return Agent(
        facts,
        store,
        LateDelivery(make_app),
        probe,
        NodeLanes(name, facts.epoch, facts.slots, settings, files),
        Reach(Address.parse(settings.broker_url or ""), within_s=settings.dead_s / 5, clock=boot_s),
        mark=mark,
        dead_s=settings.dead_s,
        grace_s=settings.grace_s,
        files=files,
        rejoins=rejoins,
        lanes=("tasks", "processes", *(["plain"] if settings.also_queues else [])),
    )


class NodeLanes:
    """The ``LaneCommands`` of a node."""

    def __init__(self, node: str, epoch: str, slots: int, settings: Settings, files: JobFiles) -> None:
        """Describe the lanes of one epoch."""
        self._files = files
        self._words = ("--node", node, "--epoch", epoch, "--pool-size", str(slots))
        self._settings = settings

    def argv(self, lane: str, *, control_fd: int, status_fd: int, page_fd: int) -> list[str]:
        """Return the command line of a lane."""
        from jetq import process

        fds = {"--control-fd": control_fd, "--status-fd": status_fd, "--page-fd": page_fd}
        return process.self_argv(
            "_lane", lane, *self._words, *(word for flag, fd in fds.items() for word in (flag, str(fd)))
        )

    def environ(self) -> dict[str, str]:
        """Return the environment of lanes."""
        import os

        return {**os.environ, **self._settings.as_environ(), **self._files.environ()}


class LateDelivery:
    """The ``Delivery`` role on an app that is made when it is first needed: an idle agent does not load Celery."""

    def __init__(self, make_app: Callable[[], Celery]) -> None:
        """``make_app``: gives the app."""
        self._make_app = make_app
        self._made: Delivery | None = None

    def settle(self, ended: Ended) -> None:
        """Tell Celery of a job that ended outside a lane."""
        from jetq.engine.delivery import CeleryDelivery

        if self._made is None:
            self._made = CeleryDelivery(self._make_app())
        self._made.settle(ended)
