"""The body of one member of a gang: get ready with the others, run this node's share, and report how it ended."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from jetq import process
from jetq.errors import BrokerDown, JetqError, MembersUnfit, NoSuchJob, UsageError
from jetq.launch import ssh
from jetq.launch.base import MEMBER, THREADS, WORKDIR, Run, Start, threads
from jetq.launch.causes import ending
from jetq.launch.output import Line, Output
from jetq.log import Log
from jetq.model.members import Cost, Fault, Part, Report
from jetq.probe import tools
from jetq.service import byssh
from jetq.service.attendants import Attendant, others_done
from jetq.service.belonging import Belonging
from jetq.service.desk import AGENT, LAUNCH, Desk
from jetq.service.jobfiles.folders import files_dir_of
from jetq.service.jobfiles.outlet import output_of
from jetq.service.jobfiles.private import private_folder
from jetq.service.livelog import LiveLog
from jetq.service.patience import patiently
from jetq.service.post import Post
from jetq.service.prepare import Preparation, Ready, Refused, Stopped
from jetq.service.progress import ProgressFile
from jetq.service.ranks import RankProcess, environment
from jetq.store.ganging import Meeting

#: Time between two looks at what runs (s).
LOOK_S = 0.05
#: Between TERM and KILL (s).
GRACE_S = 10.0
#: What cannot be killed is tried again after this long (s); the node takes nothing new meanwhile.
UNCLEAN_S = 5.0
#: Time between two reads of how far the ranks say they are (s).
PROGRESS_S = 0.5
#: The exit code of a gang that ran into its time limit, as timeout(1) has it.
LATE = 124
#: torchrun says this at once when a rank has failed; its report comes when the others have ended.
_FIRST_SIGNS = ("closing signal", "failed (exitcode")
#: torchrun says this where the rendezvous cannot listen: what is not jetq's knows nothing of leased ports.
_TAKEN = "EADDRINUSE"

_log = Log("member")


def warm_up() -> None:
    """Ask in the background, when a lane starts, what its first gang would wait for: which Open MPI is here."""
    threading.Thread(target=tools.open_mpi, name="warm-up", daemon=True).start()


class Member:
    """One member on its node, run by one thread that lives as long as its processes may."""

    def __init__(self, ledger: Meeting, post: Post) -> None:
        self._ledger = ledger
        self._post = post

    def run(self) -> Report:
        """Run it to its end: nothing of it is left when this returns.

        Raises:
            UsageError: this job is no member of a gang.
        """
        try:
            part = patiently(self._ledger.part, self._post.job_id)
        except NoSuchJob as exc:
            raise UsageError("gang.member is sent by the leader alone; start a gang with `jetq gang`") from exc
        name = f"{part.gang_id[:40].replace(':', '_')}.{part.start}.{part.index}"  # mpirun cuts paths at a colon
        try:
            with (
                private_folder(self._post.jobs_dir, name, keep=part.keep) as folder,
                output_of(part.gang_id, part.attempt - 1) as fd,
                LiveLog(fd, lambda lines: self._ledger.tell_lines(part.gang_id, self._post.node, lines)) as log,
            ):
                return _Run(self._ledger, self._post, part, folder, log).report()
        except OSError as exc:  # another node may have room
            why = f"has no folder for it: {exc}"
            return Report(faults=(Fault(part.now_s(), "none", why, node=self._post.node),))


class _Run:
    """One start of one member."""

    def __init__(self, ledger: Meeting, post: Post, part: Part, folder: Path, log: LiveLog) -> None:
        self._ledger, self._post, self._part, self._folder, self._log = ledger, post, part, folder, log
        self._failed_at_s: float | None = None
        self._progress, self._progress_at_s = ProgressFile(folder / "progress"), 0.0
        self._begun = False

    def report(self) -> Report:
        """Prepare, run, clear up."""
        preparation = Preparation(self._ledger, self._post, self._part, self._folder)
        try:
            ready = preparation.ready(self._described)
            for note in ready.notes:
                self._say(note)
            if self._part.keep:
                self._say(f"node {self._post.node} keeps its folder: {self._folder}")
            start = ready.plan.starts[self._part.index]
            env = self._environ(start, ready)
            if ssh.is_used(self._part.spec, ready.members):
                preparation.try_ssh(ready, environment(os.environ, env))
            self._begun = self._begins(ready)
            if self._begun:
                with Belonging(partial(self._goes_on, ready), self._post.stop):
                    return self._share(start, env, ready)
        except Refused as exc:
            return Report(faults=exc.faults)
        except Stopped:
            pass
        except (MembersUnfit, JetqError, OSError) as exc:
            cost: Cost = "infra" if self._begun else "none"  # what has begun is not tried again for ever
            return Report(faults=(Fault(self._part.now_s(), cost, str(exc), node=self._post.node),))
        finally:
            preparation.give_back()
        return Report(stopped=True)

    def _described(self, port: int) -> Run:
        """Return what is the same for all members."""
        part = self._part
        env = {
            "JETQ_JOB_ID": part.gang_id,
            "JETQ_TOKEN": part.token,
            "JETQ_ATTEMPT": str(part.attempt),
            "JETQ_WORLD": str(part.spec.world_size(len(part.nodes))),
        }
        return Run(f"{part.gang_id}.{part.start}", port, env, AGENT)

    def _begins(self, ready: Ready) -> bool:
        return patiently(self._goes_on, ready) and not self._post.stop.is_set()

    def _goes_on(self, ready: Ready) -> bool:
        """Say that it begins, as often as one likes. False: the gang goes on without this member."""
        said = "1" if ready.shared else ""
        heard, _ = self._ledger.meet(self._post.job_id, self._post.token, "begin", said)
        return heard is not None

    def _share(self, start: Start, env: dict[str, str], ready: Ready) -> Report:
        try:
            if not start.argv and ssh.is_used(self._part.spec, ready.members):
                report = byssh.attend(self._ledger, self._post, self._part, self._folder)
            elif start.argv:
                with self._desk(env):
                    report = self._ranks(start, env, ready)
            else:
                interface = ready.members[self._part.index].interface
                attendant = Attendant(self._ledger, self._post, self._part, start, self._folder, interface)
                report = attendant.serve(env, self._log.add)
        finally:
            self._clear()
            if self._part.index == 0:
                patiently(self._ledger.say_over, self._part.gang_id, self._part.start, 0)
        return report

    @contextmanager
    def _desk(self, env: dict[str, str]) -> Iterator[None]:
        """Serve mpirun's launch agents, where there are any; ``env`` tells them where."""
        if self._part.spec.launcher != "mpirun" or self._part.spec.transport != "jetq":
            yield
            return
        env[LAUNCH] = str(self._folder)
        with Desk(self._ledger, self._part.token, self._folder):
            yield

    def _environ(self, start: Start, ready: Ready) -> dict[str, str]:
        """Return what is added to the environment on this node."""
        files = files_dir_of(str(self._post.jobs_dir), self._part.gang_id) if self._post.jobs_dir else str(self._folder)
        checkpoints = ready.checkpoints or f"{files}/checkpoints"
        for folder in (files, *([] if ready.checkpoints else [checkpoints])):  # the head has made a shared one
            Path(folder).mkdir(parents=True, exist_ok=True)
        return {
            **threads(ready.members, self._part.spec.ranks, start.node, process.cores()),
            **{name: value for name, value in os.environ.items() if name == THREADS},
            **start.env,
            MEMBER: self._post.job_id,
            WORKDIR: start.env.get(WORKDIR, start.cwd),
            "JETQ_NODE": self._post.node,
            "JETQ_FILES_DIR": files,
            "JETQ_CKPT_DIR": checkpoints,
            "JETQ_PROGRESS": str(self._folder / "progress"),
        }

    # What this member starts itself ---------------------------------------------------------------------------------

    def _ranks(self, start: Start, env: Mapping[str, str], ready: Ready) -> Report:
        for path, text in start.files.items():
            Path(path).write_text(text)
        output = self._output(start, ready)
        ranks = RankProcess(
            start.argv, env=env, cwd=start.cwd, folder=self._folder, output=output, take=self._take, mark=MEMBER
        )
        limit_s = self._part.spec.time_limit_s
        end_s = time.monotonic() + limit_s if limit_s is not None else float("inf")
        ranks.start()
        late = False
        while (code := ranks.poll()) is None:
            late = time.monotonic() > end_s
            if late or self._post.stop.wait(LOOK_S):
                ranks.end(GRACE_S, None if late else lambda: others_done(self._ledger, self._post.job_id))
                break
            self._tell_progress()
        self._tell_progress(last=True)
        ranks.close()
        if late:
            why = f"the gang ran longer than its time limit of {limit_s:g} s (exit code {LATE})"
            return Report(LATE, (Fault(self._part.now_s(), "app", why),))
        if code is None:
            return Report(stopped=True)
        return self._ended(code, output, ready)

    def _output(self, start: Start, ready: Ready) -> Output:
        spec = self._part.spec
        if spec.launcher == "torchrun":
            return Output.of_torchrun(start.ranks)
        return Output.of_mpirun(ready.members[0].open_mpi or 5, spec.world_size(len(ready.members)))

    def _ended(self, code: int, output: Output, ready: Ready) -> Report:
        cause = output.cause
        at_s = self._failed_at_s or self._part.now_s()
        if cause is None and code >= 0 and (node := byssh.lost(ready.members)):
            return Report(faults=(Fault(at_s, "infra", "lost mpirun's daemon, or its line to it", node=node),))
        if code == 0:
            return Report(0)
        if cause is None:
            said = output.tail(None)
            taken = bool(ready.port) and any(_TAKEN in line for line in said)
            why = f"{self._part.spec.launcher} {ending(code)}"
            why = f"found port {ready.port} taken by somebody else: {why}" if taken else why
            return Report(_plain(code), (Fault(at_s, "infra" if taken or code < 0 else "app", why),), tail=tuple(said))
        own = _plain(cause.code) if cause.code else _plain(code)
        where = next((start.node for start in ready.plan.starts if cause.rank in start.ranks), "")
        fault = Fault(at_s, "app", cause.why, cause.rank, where)
        return Report(own, (fault,), tail=tuple(output.tail(cause.rank)))

    def _take(self, line: Line) -> None:
        if line.rank is None and self._failed_at_s is None and any(sign in line.text for sign in _FIRST_SIGNS):
            self._failed_at_s = self._part.now_s()
        # A launcher's own story fills a screen at each failure, and at times where all is well (torchrun, where the
        # head is the first to leave its last barrier): it hides what ranks say, so it is in the file alone.
        self._log.add(line, live=line.rank is not None)

    def _tell_progress(self, *, last: bool = False) -> None:
        now_s = time.monotonic()
        if now_s - self._progress_at_s < PROGRESS_S and not last:
            return
        self._progress_at_s = now_s
        if news := self._progress.news():
            with suppress(BrokerDown):  # it is told at the next look
                self._ledger.tell_lines(self._part.gang_id, self._post.node, [], news)
                self._progress.told(news)

    # The end --------------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        """Return once nothing of this member is left. Until then its node gets nothing new, and its slots stay held."""
        drained = False
        while True:
            try:
                process.sweep_carriers(UNCLEAN_S, **{MEMBER: self._post.job_id})
                return
            except JetqError as exc:
                why = f"a gang could not be cleared up: {exc}"
                _log.error("member.unclean", gang=self._part.gang_id, why=exc)
                if not drained:
                    patiently(self._ledger.drain, self._post.node, why, grace_s=0.0)
                    drained = True
                time.sleep(LOOK_S)

    def _say(self, text: str) -> None:
        self._log.add(Line(None, text))


def _plain(code: int) -> int:
    """Return an exit code as shells have it: 128 and the number of a signal."""
    return 128 - code if code < 0 else code
