"""Guard a node: start its agent, pass signals on, kill what it leaves, start the next where it had to give up."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from jetq import ids, process
from jetq.clock import boot_s
from jetq.log import Log
from jetq.service.fence import REJOIN

#: Tells the agent who guards it; believed only if that is its parent.
GUARDED = "JETQ_GUARDED"
#: Tells the agent that the run before it had to give up.
REJOINS = "JETQ_REJOINS"
#: What an agent gets when its guard is killed: it then clears up itself.
ORPHANED = signal.SIGHUP
#: Time between two looks for orphans (s): a child of a dead pool child lives no longer.
LOOK_S = 0.5
#: Time an agent may take beyond its grace to tell the ledger and stop its lanes (s).
STOP_S = 10.0
#: An agent that had to give up is followed by the next after 0.5 s, then twice as long each time, unless it lived for a
#: minute (s).
REJOIN_FIRST_S, REJOIN_LAST_S, HEALTHY_S = 0.5, 8.0, 60.0
#: A killed process that is still there after this waits for a device and is given up (s).
CLEAR_S = 5.0
#: Exit codes of an agent that ended for a reason it has told: planned, asked wrongly, no broker.
TOLD = frozenset({0, 2, 69})

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_log = Log("guard")


def is_guarded(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether this process was started by its guard."""
    return environ.get(GUARDED) == str(os.getppid())


def guard(argv: Sequence[str], *, key: str, grace_s: float) -> int:
    """Run a node's agents to the last one's end, then leave nothing behind. Call it in the main thread.

    An agent that had to give up (the ledger has declared it dead, or it could not reach it for too long) is followed by
    a new one, which joins under a new epoch.

    Args:
        argv: the agent's command line.
        key: marks all processes of this node, in any run.
        grace_s: time the agent waits for what runs when it is asked to stop.

    Returns:
        The agent's exit code if it ended by plan or said why, else 1.
    """
    process.become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    env = {**os.environ, GUARDED: str(os.getpid())}
    pause_s = REJOIN_FIRST_S
    while True:
        started_s = boot_s()
        code, asked = _run(argv, {**env, process.MARK: f"{key}.{ids.random64()}"}, grace_s)
        if code != REJOIN or asked:
            break
        pause_s = REJOIN_FIRST_S if boot_s() - started_s > HEALTHY_S else pause_s
        _log.warning("guard.rejoins", after_s=pause_s)
        end_s = boot_s() + pause_s
        while (left_s := end_s - boot_s()) > 0:
            if _is_asked(left_s):
                return 0
        pause_s = min(pause_s * 2, REJOIN_LAST_S)
        env[REJOINS] = "1"
    if code in TOLD:
        return code
    _log.error("guard.agent_died", code=code)
    return 1


def _run(argv: Sequence[str], env: Mapping[str, str], grace_s: float) -> tuple[int, bool]:
    """Run one agent, and clear up. Returns its exit code, and whether it had been asked to stop."""
    agent = process.spawn(argv, env=env, tie=ORPHANED)
    try:
        return _attend(agent, grace_s)
    finally:
        agent.kill()
        _clear(env[process.MARK])


def _attend(agent: process.Child, grace_s: float) -> tuple[int, bool]:
    """Pass signals on and kill orphans until the agent has ended. Returns its exit code, and whether it was to stop."""
    end_s: float | None = None
    while (code := agent.poll()) is None:
        if _is_asked(LOOK_S):
            agent.signal(signal.SIGTERM)
            end_s = end_s or boot_s() + grace_s + STOP_S
        if end_s is not None and boot_s() > end_s:
            _log.error("guard.agent_hangs", after_s=grace_s + STOP_S)
            agent.kill()
        process.reap_adopted([agent.pid])
    return code, end_s is not None


def _is_asked(within_s: float) -> bool:
    """Wait for a signal, or for the end of a child. Returns whether it asks for the end."""
    caught = signal.sigtimedwait(_SIGNALS, within_s)
    return caught is not None and caught.si_signo != signal.SIGCHLD


def _clear(mark: str) -> None:
    """Kill what carries the mark and what was adopted, until neither is left."""
    killed = set(process.sweep(mark))
    end_s = boot_s() + CLEAR_S
    while found := process.reap_adopted([]):
        killed.update(found)
        if boot_s() > end_s:
            _log.error("guard.cannot_kill", pids=found)
            break
        signal.sigtimedwait([signal.SIGCHLD], 0.02)
    if killed:
        _log.info("guard.cleared", processes=len(killed))
