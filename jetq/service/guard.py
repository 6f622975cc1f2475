"""Guard a node: start its agent, pass signals on, and kill whatever is left when the agent has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from jetq import ids, process
from jetq.clock import boot_s
from jetq.log import Log

#: Tells the agent who guards it; believed only if that is its parent.
GUARDED = "JETQ_GUARDED"
#: What an agent gets when its guard is killed: it then clears up itself.
ORPHANED = signal.SIGHUP
#: Time between two looks for orphans (s): a child of a dead pool child lives no longer.
LOOK_S = 0.5
#: Time an agent may take beyond its grace to tell the ledger and stop its lanes (s).
STOP_S = 10.0
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
    """Run an agent to its end, then leave nothing behind. Call it in the main thread.

    Args:
        argv: the agent's command line.
        key: marks all processes of this node, in any run.
        grace_s: time the agent waits for what runs when it is asked to stop.

    Returns:
        The agent's exit code if it ended by plan or said why, else 1.
    """
    process.become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    mark = f"{key}.{ids.random64()}"
    env = {**os.environ, GUARDED: str(os.getpid()), process.MARK: mark}
    agent = process.spawn(argv, env=env, tie=ORPHANED)
    try:
        code = _attend(agent, grace_s)
    finally:
        agent.kill()
        _clear(mark)
    if code in TOLD:
        return code
    _log.error("guard.agent_died", code=code)
    return 1


def _attend(agent: process.Child, grace_s: float) -> int:
    """Pass signals on and kill orphans until the agent has ended. Returns its exit code."""
    end_s: float | None = None
    while (code := agent.poll()) is None:
        caught = signal.sigtimedwait(_SIGNALS, LOOK_S)
        if caught is not None and caught.si_signo != signal.SIGCHLD:
            agent.signal(signal.SIGTERM)
            end_s = end_s or boot_s() + grace_s + STOP_S
        if end_s is not None and boot_s() > end_s:
            _log.error("guard.agent_hangs", after_s=grace_s + STOP_S)
            agent.kill()
        process.reap_adopted([agent.pid])
    return code


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
