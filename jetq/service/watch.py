"""The life of a stream on one node: its runner is started, watched, killed where it hangs, and started anew."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jetq.errors import JetqError
from jetq.log import Log
from jetq.model.charge import Charge, End
from jetq.model.credentials import redact
from jetq.model.stream import Secrets, StreamSpec
from jetq.policy import boards, stepdown
from jetq.policy.streamstates import Act, Ending, StreamState, act, after_end, after_frame, after_raise, begin
from jetq.service.account import Account
from jetq.service.cooling import Cooling
from jetq.service.courier import Courier
from jetq.service.jobfiles.folders import files_dir_of
from jetq.service.jobfiles.peephole import address_of
from jetq.service.models import Depot, fetch_model
from jetq.service.post import Post
from jetq.service.runnerlog import RunnerLog
from jetq.service.runners import Runner, Runners
from jetq.service.runnerwords import RunnerWords
from jetq.video.models import folder_beside

#: Time between two looks at a runner (s); what it says is taken at once.
LOOK_S = 0.25
#: A runner that is asked to end has so long (s): its sinks close within one, its camera within another. Then it is
#: killed, and so long until that has happened; where it has not, its spare hangs. One that says nothing any more has a
#: moment to end.
GRACE_S, KILLED_S, MUTE_S = 3.0, 5.0, 1.0
#: What a runner may say at once (bytes).
_PIECE = 256 * 1024
#: Fields of a spec that are the leader's business, or told to a runner while it runs.
_NOT_THE_RUNNERS: dict[str, Any] = {"cost": None, "labels": (), "mem_bytes": 0, "fps": None, "hot_fps": ()}

_log = Log("stream")


class Watch:
    """The life of a stream on this node, and the runner that it has now."""

    def __init__(
        self,
        charge: Charge,
        post: Post,
        ledger: Depot,
        runners: Runners,
        cooling: Cooling,
        courier: Courier,
        out_fd: int,
    ) -> None:
        """``out_fd``: leads to the job's log on this node."""
        self._charge, self._post, self._ledger = charge, post, ledger
        self._runners, self._cooling, self._courier = runners, cooling, courier
        self._log = RunnerLog(out_fd, charge.stream_id)
        self._log.secrets = charge.secrets.values()
        self._life = begin(time.monotonic())
        self._runner: Runner | None = None
        self._asked = False  # its runner ends because it shall
        self._started = 0
        self._words = RunnerWords()
        self._ending: tuple[Ending, str] | None = None
        self._busy = False  # its analyzer has had one frame for long
        self._account = Account(boards.prior(charge.board), self._life.since_s)
        self._results: list[str] = []
        self._told: dict[str, Any] = {}  # to the runner, last
        self._restart()

    def change(self, charge: Charge) -> None:
        """Go on with another spec: a new runner, if it is that runner's business."""
        before, self._charge = self._charge, charge
        if _of_runner(before) == _of_runner(charge):
            return
        self._log.say("jetq: what it shall do was changed; it begins anew")
        self._end_runner()
        self._log.secrets = charge.secrets.values()
        self._life = begin(time.monotonic())
        self._restart()

    def look(self) -> End | None:
        """Take what the runner says, wait a moment for it, and do what follows. Returns how it ended, once it has."""
        self._hear()
        self._instruct()
        now_s = time.monotonic()
        self._life, what = act(self._life, self._charge.spec.stall_s, now_s, busy=self._busy)
        end = self._do(what)
        self._tell(now_s)
        return end

    def close(self) -> None:
        """Leave nothing."""
        self._end_runner()
        self._tell(time.monotonic())

    # What the runner says -------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        runner = self._runner
        if runner is None:
            self._post.stop.wait(LOOK_S)
            return
        fds = [runner.channel.fileno(), *([] if self._log.fd is None else [self._log.fd])]
        ready, _, _ = select.select(fds, [], [], LOOK_S)
        if self._log.fd in ready and not self._log.take():
            self._log.close()
        if runner.channel.fileno() in ready and not self._read(runner) and not runner.gone.wait(MUTE_S):
            self._kill(runner)  # what it does now, nobody hears of
        if runner.gone.is_set():
            self._ended(runner)

    def _read(self, runner: Runner) -> bool:
        """Take what is there. False: the runner says no more, or nothing that counts."""
        try:
            data = runner.channel.recv(_PIECE)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        try:
            for said in self._words.take(data):
                self._take(said)
        except JetqError as exc:
            self._ending = self._ending or ("broken", str(exc))
            return False
        return bool(data)

    def _take(self, said: Mapping[str, Any]) -> None:
        now_s = time.monotonic()
        self._busy = "busy_s" in said
        if self._busy:
            return
        if "opened" in said:
            self._log.say(f"jetq: opened {self._account.open(said['opened'])}")
            _log.info("stream.opened", stream=self._charge.stream_id, backend=said["opened"]["backend"])
        elif "end" in said:
            how = {"over": "over", "hopeless": "hopeless"}.get(said["end"], "broken")
            self._ending = how, said["why"]  # type: ignore[assignment]
        else:
            if said["good"]:
                self._life = after_frame(self._life, now_s)
            for _ in range(said["raises"] - self._life.raises):
                self._life = after_raise(self._life, said["trace"], now_s)
            self._results += said["results"]
            self._account.add(said, now_s)

    def _ended(self, runner: Runner) -> None:
        while self._read(runner):
            if not select.select([runner.channel], [], [], 0)[0]:
                break
        how, why = self._ending or ("broken", _death(runner.code))
        self._drop_runner()
        if self._asked:
            return  # that is no failure of the stream, and nothing that people need to see
        before = self._life.state
        self._life = after_end(self._life, how, why, time.monotonic(), dice=random.random())
        if self._life.state is not before or self._life.why:
            self._log.say(f"jetq: {self._life.state.value}: {self._life.why}")
            _log.warning("stream.runner_ended", stream=self._charge.stream_id, why=self._life.why)

    # What is done ---------------------------------------------------------------------------------------------------

    def _do(self, what: Act) -> End | None:
        if what == "start":
            self._restart()
        elif what == "term":
            self._log.say(f"jetq: {self._life.state.value}: {self._life.why or 'its runner is asked to end'}")
            self._signal(signal.SIGTERM)
        elif what == "kill" and self._runner is not None:
            self._kill(self._runner)
        elif what == "fail":
            secrets = self._charge.secrets.values()
            return End("failed", redact(self._life.why, secrets), redact(self._life.traceback, secrets))
        elif what == "finish":
            return End("over", self._life.why)
        return None

    def _restart(self) -> None:
        spec = self._charge.spec
        folder = self._post.jobs_dir or Path(os.environ.get("TMPDIR", "/tmp"))
        files = files_dir_of(str(folder), self._charge.stream_id)
        first: dict[str, Any] = {
            "stream": self._charge.stream_id,
            "token": self._post.token,
            "secrets": {shown: secret.as_json() for shown, secret in self._charge.secrets.items()},
            "files": files,
            "files_max_bytes": self._post.files_max_bytes,
            "fps": stepdown.allowed_fps(spec.fps, spec.hot_fps, self._cooling.level),
        }
        self._words, self._ending, self._busy = RunnerWords(), None, False
        self._told = {}
        self._account.renew(time.monotonic())
        self._started += 1
        write_fd = self._log.open()
        try:
            Path(files).mkdir(parents=True, exist_ok=True)
            options = fetch_model(self._ledger, spec.options, folder_beside(folder), shared=self._post.shared)
            first["spec"] = replace(spec, options=options).as_json()
            first["preview"] = address_of(self._post.jobs_dir, self._charge.stream_id) if self._post.jobs_dir else ""
            self._runner = self._runners.start(first, write_fd, self._post.stop)
        except (JetqError, OSError) as exc:
            self._log.close()
            self._log.say(f"jetq: {exc}")
            self._life = after_end(self._life, "broken", str(exc), time.monotonic(), dice=random.random())
            return
        finally:
            os.close(write_fd)

    def _instruct(self) -> None:
        """Tell the runner how many frames it may look at, and whether what it sees counts, where that is new."""
        spec = self._charge.spec
        fps = stepdown.allowed_fps(spec.fps, spec.hot_fps, self._cooling.level)
        words = {"fps": fps, "owns": self._courier.owns}
        if words != self._told and self._runner is not None:
            self._told = words
            try:
                self._runner.channel.send(json.dumps(words).encode() + b"\n")
            except OSError:
                return  # it ends, and the next one is told

    def _signal(self, number: signal.Signals) -> None:
        if self._runner is not None:
            self._runners.signal(self._runner, number)

    def _end_runner(self) -> None:
        """Ask the runner to end, then kill it; take what it says last."""
        runner = self._runner
        if runner is None:
            return
        self._asked = True
        self._signal(signal.SIGTERM)
        end_s = time.monotonic() + GRACE_S
        while self._runner is not None and time.monotonic() < end_s:
            self._hear()
        if self._runner is not None:
            self._kill(runner)
            self._drop_runner()
        self._asked = False

    def _kill(self, runner: Runner) -> None:
        """Kill a runner, with its spare if that does not do it."""
        self._runners.signal(runner, signal.SIGKILL)
        if not runner.gone.wait(KILLED_S):
            self._runners.replace("does not kill a runner")
            if not runner.gone.wait(KILLED_S):
                _log.error("stream.unkillable", stream=self._charge.stream_id, pid=runner.pid)

    def _drop_runner(self) -> None:
        if self._runner is not None:
            self._runner.channel.close()
            self._runner = None
        self._log.close()

    def _tell(self, now_s: float) -> None:
        """Hand on how it is."""
        spec, life = self._charge.spec, self._life
        slowed = stepdown.said(spec.fps, spec.hot_fps, self._cooling.level)
        telemetry = {
            **self._account.reading(life, now_s, runs=self._runner is not None),
            "why": redact(life.why, self._charge.secrets.values()),
            "slowed": slowed,
            "reconnects": self._started - 1,
            "results_dropped": self._courier.dropped,
            "node": self._post.node,
        }
        results, self._results = self._results, []
        self._courier.say(telemetry, self._account.load(spec.fps), results, ready=life.state is StreamState.STREAMING)


def _of_runner(charge: Charge) -> tuple[StreamSpec, Secrets]:
    return replace(charge.spec, **_NOT_THE_RUNNERS), charge.secrets


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its runner was killed by signal {-code}"
    return f"its runner ended with exit code {code}"
