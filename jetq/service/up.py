"""Run what one `jetq up` is asked for: broker, nodes and web page in one folder, until a signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from jetq import process
from jetq.broker import EmbeddedServer, Listen, check
from jetq.broker.folder import UpFolder, UpState
from jetq.broker.server import LOOPBACK, bindable, free_port
from jetq.config import Settings
from jetq.service.local import LOOK_S, Launch, LocalCluster
from jetq.store.base import Reader

#: Time for all nodes to come up (s): a slow board imports for long.
READY_S = 120.0
#: Variables that name one node: ours are given by flags.
_ONE_NODE = frozenset({"JETQ_SLOTS", "JETQ_NODE", "JETQ_NODES", "JETQ_LISTEN", "JETQ_JSON"})


@dataclass(frozen=True, slots=True)
class UpPlan:
    """What one `jetq up` is asked for. Folders in the settings are absolute."""

    settings: Settings
    slots: tuple[int | None, ...]  # one a node; None: as many as the machine is good for
    listen: Listen | None = None
    web: bool = True

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [f"node-{number}" for number in range(1, len(self.slots) + 1)]


class Up:
    """One run of `jetq up`. Build it in the process that will own the children."""

    def __init__(self, plan: UpPlan, open_reader: Callable[[Settings], Reader], tell: Callable[[str], None]) -> None:
        """Start nothing yet. ``open_reader`` gives the ledger of a broker; ``tell`` takes lines for the person."""
        self._plan = plan
        self._open_reader = open_reader
        self._tell = tell
        self._folder = UpFolder(plan.settings.home_dir)
        self._stopping, self._hurry = threading.Event(), threading.Event()
        self._server: EmbeddedServer | None = None
        self._web_port: int | None = None

    def serve(self, ready: Callable[[UpState], None]) -> None:
        """Run until SIGTERM or SIGINT, then stop everything. The first signal is patient, the second kills.

        Args:
            ready: called once when every node is up.

        Raises:
            JetqError: it does not come up, or another one runs in the folder. Nothing is left running.
        """
        self._folder.acquire()
        before = {signum: signal.signal(signum, self._on_signal) for signum in (signal.SIGTERM, signal.SIGINT)}
        try:
            settings = self._plan.settings.with_(broker_url=self._broker())
            self._run(settings, ready)
        finally:
            if self._server:
                self._server.stop()
            self._folder.release()
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        (self._hurry if self._stopping.is_set() else self._stopping).set()

    def _broker(self) -> str:
        given = self._plan.settings.broker_url
        if given:
            check(given)
            return given
        self._server = EmbeddedServer(self._folder, self._plan.listen)
        self._server.start()
        return self._server.url

    def _run(self, settings: Settings, ready: Callable[[UpState], None]) -> None:
        nodes = [self._node(settings, name, n) for name, n in zip(self._plan.names, self._plan.slots, strict=True)]
        web = self._web(settings) if self._plan.web else None
        cluster = LocalCluster(self._server, nodes, web, tell=self._tell, stopping=self._stopping)
        self._folder.write(self._state(settings, cluster, ready=False))
        planned = False
        try:
            cluster.start(self._open_reader(settings), within_s=READY_S, web_port=self._web_port)
            state = self._state(settings, cluster, ready=True)
            self._folder.write(state)
            ready(state)
            while not self._stopping.wait(LOOK_S):
                if cluster.look():
                    self._folder.write(self._state(settings, cluster, ready=True))
            planned = True
        finally:
            if not planned:
                self._hurry.set()
            cluster.stop(settings.grace_s, self._hurry)

    def _node(self, settings: Settings, name: str, slots: int | None) -> Launch:
        flags = [*(["--slots", str(slots)] if slots else [])]
        argv = process.self_argv("worker", "--name", name, *flags)
        return Launch(name, argv, self._environ(settings), self._folder.log_dir / f"{name}.log")

    def _web(self, settings: Settings) -> Launch:
        last = self._folder.last_port("web")
        self._web_port = last if last and bindable(LOOPBACK, last) else free_port()
        self._folder.keep_port(self._web_port, "web")
        argv = process.self_argv("web", "--port", str(self._web_port))
        return Launch("the web page", argv, self._environ(settings), self._folder.log_dir / "web.log")

    def _environ(self, settings: Settings) -> dict[str, str]:
        """The URL goes by the environment: a command line shows its password to every user.

        Where the broker is reached, the nodes' files are.
        """
        ours = {key: value for key, value in os.environ.items() if key not in _ONE_NODE}
        http = settings.http or (self._plan.listen.written if self._plan.listen else None)
        return {**ours, **settings.with_(slots=None, node=None, http=http).as_environ()}

    def _state(self, settings: Settings, cluster: LocalCluster, *, ready: bool) -> UpState:
        join_url = self._server.join_url if self._server else None
        cluster_flag = "" if settings.cluster == "jetq" else f" --cluster {settings.cluster}"
        return UpState(
            pid=os.getpid(),
            url=settings.broker_url or "",
            port=self._server.port if self._server else None,
            server_pid=self._server.pid if self._server else None,
            web_port=self._web_port if cluster.web else None,
            join=f"jetq worker --broker {join_url}{cluster_flag} --http auto" if join_url else None,
            nodes=cluster.pids(),
            grace_s=settings.grace_s,
            ready=ready,
        )
