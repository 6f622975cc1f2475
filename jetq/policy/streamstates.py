"""The life of a stream on its node: connecting, streaming, stalled, backoff, failed. Pure.

The supervisor says what it saw (a frame, a raise, an end) and asks each second what is to be done. The runner is a
process of its own and makes a new capture each time it starts; where it hangs it is killed, whatever its library says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from jetq.model.limits import cut
from jetq.policy.backoff import pause_s


class StreamState(str, Enum):
    """Where a stream is. The value is what people see."""

    CONNECTING = "connecting"  # its runner has started, and no frame has come yet
    STREAMING = "streaming"
    STALLED = "stalled"  # no frame for ``stall_s``: its runner is being stopped
    BACKOFF = "backoff"  # its runner has ended; another starts after a while
    FAILED = "failed"  # it is not tried again


_S = StreamState
#: Every move that is allowed.
MOVES: dict[StreamState, frozenset[StreamState]] = {
    _S.CONNECTING: frozenset({_S.STREAMING, _S.STALLED, _S.BACKOFF, _S.FAILED}),
    _S.STREAMING: frozenset({_S.STALLED, _S.BACKOFF, _S.FAILED}),
    _S.STALLED: frozenset({_S.BACKOFF, _S.FAILED}),
    _S.BACKOFF: frozenset({_S.CONNECTING}),
    _S.FAILED: frozenset(),
}
#: The pause (s) after the first failure in a row, and the longest.
FIRST_S, MOST_S = 1.0, 60.0
#: Who has streamed for so long (s) has begun anew: the next failure is a first one.
STEADY_S = 60.0
#: Opening may try several libraries, each with a time-out of its own (s); then it hangs.
CONNECT_S = 30.0
#: A runner that is to end is asked, and killed after so long (s).
TERM_S = 2.0
#: An analyzer that raises on so many frames one after the other gets a new runner; that so many times in a row, without
#: one good frame between, it has FAILED.
RAISES, RAISING_RUNS = 10, 3

#: How a runner ended. over: a file came to its end. hopeless: no other try will help (no video in it).
Ending = Literal["broken", "over", "hopeless"]
#: What the supervisor is to do: start a runner, ask it to end, kill it, or end the job (it is FAILED, or over).
Act = Literal["", "start", "term", "kill", "fail", "finish"]


@dataclass(frozen=True, slots=True)
class Life:
    """A stream on its node. All times: one clock that only goes forward."""

    state: StreamState
    since_s: float  # of the state
    frame_s: float | None = None  # when the last frame of this runner came
    failures: int = 0  # in a row
    raises: int = 0  # frames in a row on which the analyzer raised
    raising_runs: int = 0  # runners in a row that ended for that
    until_s: float | None = None  # backoff: when it starts again
    quits: bool = False  # its runner is to end, and may not have been asked yet
    asked_s: float | None = None  # when it was asked
    over: bool = False  # a file has come to its end
    why: str = ""  # it is not streaming; for people
    traceback: str = ""  # of an analyzer that raised


def begin(now_s: float) -> Life:
    """Return the life of a stream whose first runner starts now."""
    return Life(_S.CONNECTING, now_s)


def after_frame(life: Life, now_s: float) -> Life:
    """Return the life after a frame came and was looked at."""
    if life.state is _S.CONNECTING:
        life = replace(life, state=_S.STREAMING, since_s=now_s, why="")
    if life.state is not _S.STREAMING:
        return life  # a late one, of a runner that is being stopped
    steady = now_s - life.since_s >= STEADY_S
    return replace(life, frame_s=now_s, raises=0, raising_runs=0, traceback="", failures=0 if steady else life.failures)


def after_raise(life: Life, traceback: str, now_s: float) -> Life:
    """Return the life after a frame came on which the analyzer raised: the camera is well, the analyzer is not."""
    if life.state is _S.CONNECTING:
        life = replace(life, state=_S.STREAMING, since_s=now_s, why="")
    if life.state is not _S.STREAMING:
        return life
    life = replace(life, frame_s=now_s, raises=life.raises + 1, traceback=cut(traceback))
    if life.raises < RAISES or life.quits:
        return life
    return replace(
        life, quits=True, raising_runs=life.raising_runs + 1, why=f"its analyzer raised on {RAISES} frames in a row"
    )


def after_end(life: Life, ending: Ending, why: str, now_s: float, *, dice: float) -> Life:
    """Return the life after its runner has ended, and all of its processes are gone.

    Args:
        why: for people, without credentials. A cause that is known already (it stalled, its analyzer raised) stays.
        dice: 0..1, drawn by the caller: streams that failed together shall not come back together.
    """
    if life.state in (_S.BACKOFF, _S.FAILED):
        return life
    if ending == "over":
        return replace(life, over=True, why="its file is over")
    why = (life.why if life.quits else "") or cut(why)
    gone = replace(life, since_s=now_s, frame_s=None, raises=0, quits=False, asked_s=None, why=why)
    if ending == "hopeless":
        return replace(gone, state=_S.FAILED)
    if life.raising_runs >= RAISING_RUNS:
        times = f"{RAISING_RUNS} times in a row, each time anew"
        return replace(gone, state=_S.FAILED, why=f"{why}, {times}: {_last_line(life.traceback)}")
    failures = 1 if _was_steady(life, now_s) else life.failures + 1
    until_s = now_s + _jittered_s(failures, dice)
    return replace(gone, state=_S.BACKOFF, failures=failures, until_s=until_s)


def act(life: Life, stall_s: float, now_s: float, *, busy: bool = False) -> tuple[Life, Act]:
    """Return what is to be done now, and the life after it. Ask once a second, and after each event.

    ``busy``: frames come, but its analyzer has not done with one.
    """
    if life.state is _S.FAILED:
        return life, "fail"
    if life.over:
        return life, "finish"
    if life.state is _S.BACKOFF:
        if life.until_s is None or now_s < life.until_s:
            return life, ""
        return replace(life, state=_S.CONNECTING, since_s=now_s, until_s=None), "start"
    if life.quits:
        if life.asked_s is None:
            return replace(life, asked_s=now_s), "term"
        return life, "kill" if now_s - life.asked_s >= TERM_S else ""
    silent_s = now_s - (life.since_s if life.frame_s is None else life.frame_s)
    most_s = max(stall_s, CONNECT_S) if life.frame_s is None else stall_s
    if silent_s < most_s:
        return life, ""
    why = f"no frame for {silent_s:.1f} s" if life.frame_s is not None else f"no frame within {silent_s:.1f} s"
    if busy:
        why = f"its analyzer has not done with one frame in {silent_s:.1f} s"
    return replace(life, state=_S.STALLED, since_s=now_s, quits=True, asked_s=now_s, why=why), "term"


def _was_steady(life: Life, now_s: float) -> bool:
    return life.state is _S.STREAMING and now_s - life.since_s >= STEADY_S and not life.raising_runs


def _jittered_s(failures: int, dice: float) -> float:
    whole_s = pause_s(failures, first_s=FIRST_S, most_s=MOST_S)
    return min(MOST_S, max(FIRST_S, whole_s * (0.75 + 0.5 * dice)))


def _last_line(traceback: str) -> str:
    lines = [line.strip() for line in traceback.splitlines() if line.strip()]
    return lines[-1] if lines else "no traceback"
