"""A member that starts nothing by itself: it starts the daemon that mpirun asks for, and waits for the head's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from jetq.errors import BrokerDown, UsageError
from jetq.launch.base import MEMBER, Start
from jetq.launch.causes import ending
from jetq.launch.exec import LaunchRequest
from jetq.launch.output import Line, Output
from jetq.model.members import Fault, Part, Report
from jetq.service.post import Post
from jetq.service.ranks import RankProcess
from jetq.store.ganging import Meeting

#: Time between two looks at what the head asks for: while a daemon is awaited, and after (s).
LOOK_S, LATER_LOOK_S = 0.03, 0.3
#: A daemon that is asked to end gets this long before it is killed (s).
GRACE_S = 10.0
#: So much of a daemon's output goes back to mpirun (characters).
_MOST = 4000


def others_done(ledger: Meeting, member_id: str) -> bool:
    """Whether no rank of the gang is left anywhere. mpirun and its daemons wait for one that was cut off for ever."""
    try:
        return ledger.say_done(member_id)
    except BrokerDown:
        return False


class Attendant:
    """Serves the head of its gang. Used by one thread that lives as long as the daemon may."""

    def __init__(self, ledger: Meeting, post: Post, part: Part, start: Start, folder: Path, interface: str) -> None:
        """``folder``: private to this member; ``interface``: of this machine, that the peers reach."""
        self._ledger, self._post, self._part = ledger, post, part
        self._start, self._folder, self._interface = start, folder, interface
        self._served: set[str] = set()

    def serve(self, env: Mapping[str, str], take: Callable[[Line], None]) -> Report:
        """Start what the head asks for, until that has ended or somebody asks for an end.

        ``env``: of the daemon, from which its ranks inherit.
        """
        daemon: RankProcess | None = None
        asked, name, said = "", "", Output.of_daemon()
        while not self._post.stop.wait(LOOK_S if daemon is None and self._start.answers_for else LATER_LOOK_S):
            try:
                if daemon is not None and (code := daemon.poll()) is not None:
                    daemon.close()
                    self._ledger.answer_launch(asked, code, "\n".join(said.tail(None))[-_MOST:])
                    if code < 0:
                        return self._lost(name, code)
                    daemon = None
                if daemon is None and (found := self._next()):
                    asked, request = found
                    name = request.daemon
                    said = Output.of_daemon()
                    daemon = self._started(request, env, said, take)
                if self._ledger.is_over(self._part.gang_id, self._part.start):
                    break
            except BrokerDown:  # what runs goes on
                continue
        stopped = self._post.stop.is_set()
        if daemon is not None:
            code = daemon.exited
            daemon.end(GRACE_S, lambda: others_done(self._ledger, self._post.job_id))
            daemon.close()
            if code is not None and code < 0 and not stopped:  # the head ended while its ranks were cleared up
                return self._lost(name, code)
        return Report(None if stopped else 0, stopped=stopped)

    def _lost(self, daemon: str, code: int) -> Report:
        """Report a daemon that was killed: mpirun then ends with 0, as if all were well."""
        why = f"lost mpirun's daemon: {daemon} {ending(code)}"
        return Report(faults=(Fault(self._part.now_s(), "infra", why),))

    def _next(self) -> tuple[str, LaunchRequest] | None:
        """Return a request that was not yet met; one that asks for something else is answered with its fault."""
        if not self._start.answers_for:
            return None
        for asked, words in self._ledger.launches(self._part.token, self._start.answers_for).items():
            if asked in self._served:
                continue
            self._served.add(asked)
            try:
                return asked, LaunchRequest.parse(words)
            except UsageError as exc:
                self._ledger.answer_launch(asked, UsageError.exit_code, f"jetq: {exc}\n")
        return None

    def _started(
        self, request: LaunchRequest, env: Mapping[str, str], said: Output, take: Callable[[Line], None]
    ) -> RankProcess:
        argv = request.argv(request.daemon, self._interface)
        daemon = RankProcess(
            argv, env=env, cwd=self._start.cwd, folder=self._folder, output=said, take=take, mark=MEMBER
        )
        daemon.start()
        return daemon
