"""What follows from where a gang's members are: nothing yet, stop the others, or its end. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from jetq.model.gang import GangSpec
from jetq.model.job import JobState
from jetq.model.members import GangView, MemberView
from jetq.policy import attempts
from jetq.policy.attempts import Budget, Failure, Tally
from jetq.policy.fits import named

#: Members have so long (s) from their reservation until they begin.
PREPARE_S = 30.0
#: The loss of a lane or an agent is told up to so long (s) after it; the ranks beside it fail at once.
TOLD_S = 2.0
#: A gang whose members refused to begin so often in a row is not tried again.
REFUSALS = 5


@dataclass(frozen=True, slots=True)
class Stop:
    """This start shall end: its members are asked to."""

    why: str


@dataclass(frozen=True, slots=True)
class End:
    """All members have ended, and this is what becomes of the gang."""

    state: JobState  # QUEUED: another start follows
    why: str
    exit_code: int | None = None
    tail: tuple[str, ...] = ()
    tally: Tally = field(default_factory=Tally)
    refused: int = 0  # starts in a row in which a node refused
    not_before_s: float | None = None
    bounds: tuple[int, int] | None = None
    resting: tuple[tuple[str, str], ...] = ()  # nodes that refused, and why


def next_step(gang: GangView, now_s: float) -> Stop | End | None:
    """Return what is to be done about a gang that holds nodes. ``now_s``: the broker's clock."""
    failures = found(gang)
    if not all(member.ended for member in gang.members):
        if gang.stopping or gang.cancel_asked:
            return None
        if failures:
            return Stop(str(attempts.root_cause(failures)))
        if gang.started_s is None and gang.reserved_s is not None and now_s > gang.reserved_s + PREPARE_S:
            return Stop(f"it was not ready within {PREPARE_S:g} s: {_late(gang)}")
        return None
    if gang.cancel_asked:
        return End(JobState.CANCELLED, gang.reason)
    if not failures and not gang.stopping:
        return End(JobState.SUCCEEDED, "", 0)
    if gang.started_s is None:
        return _refused(gang, failures)
    if not failures:  # nobody says why: whoever stopped it knew
        failures = [Failure(now_s, "none", gang.nodes[0], f"was stopped: {gang.stopping}")]
    return _judged(gang, failures, now_s)


def comes_back(gang: GangView, now_s: float) -> GangView | None:
    """Return a gang that is being stopped, as it will wait for its next start; None: nothing of it will.

    Room is kept for it from now on: until its last member has ended, work that came later would take it.
    """
    failures = found(gang)
    ended = all(member.ended for member in gang.members)
    if not gang.stopping or gang.cancel_asked or gang.started_s is None or not failures or ended:
        return None
    end = _judged(gang, failures, now_s)
    if end.state is not JobState.QUEUED:
        return None
    least, most = end.bounds or (gang.least, gang.most)
    return replace(gang, not_before_s=end.not_before_s or 0.0, least=least, most=most)


def found(gang: GangView) -> list[Failure]:
    """Return all that went wrong in this start, as far as members have ended."""
    return [failure for member in gang.members if member.ended for failure in _failures(gang, member)]


def budget(spec: GangSpec) -> Budget:
    """Return how many more attempts each kind of failure may lead to."""
    return Budget(app=spec.retries)


def tally_of(gang: GangView) -> Tally:
    """Return what a gang has used up, its current attempt counted."""
    return Tally(gang.attempt, gang.tally.get("infra", 0), gang.tally.get("app", 0))


def _failures(gang: GangView, member: MemberView) -> list[Failure]:
    report = member.report
    if report is None:
        if member.state is JobState.CANCELLED and (gang.stopping or gang.cancel_asked):
            return []
        if member.cost == "app":
            return [Failure(member.ended_s, "app", member.node, member.error)]
        return [Failure(member.ended_s - TOLD_S, member.cost, member.node, f"was lost: {member.error}")]
    if report.faults:
        return [Failure(f.at_s, f.cost, f.node or member.node, f.why, f.rank) for f in report.faults]
    if report.stopped:
        if gang.stopping or gang.cancel_asked:
            return []
        return [Failure(member.ended_s, "none", member.node, f"was asked to stop: {member.error or 'it drains'}")]
    if report.code:
        return [Failure(member.ended_s, "app", member.node, f"ended with code {report.code}")]
    return []


def _late(gang: GangView) -> str:
    late = [member.node for member in gang.members if member.index not in gang.arrived]
    if not late:
        return "its members did not find each other"
    return f"{named(late)} {'has' if len(late) == 1 else 'have'} not answered"


def _refused(gang: GangView, failures: list[Failure]) -> End:
    """Nothing has begun: no retry is charged, and who was in the way is left alone for a while."""
    app = [failure for failure in failures if failure.cost == "app"]
    if app:
        root = attempts.root_cause(app)
        return End(JobState.FAILED, str(root), 1, tally=tally_of(gang))
    late = [m for m in gang.members if m.index not in gang.arrived] if gang.stopping and not failures else []
    resting = [(m.node, "has not answered in time") for m in late] + [(f.node, f.why) for f in failures]
    why = str(attempts.root_cause(failures)) if failures else gang.stopping
    refused = gang.tally.get("refused", 0) + 1
    if refused > REFUSALS:
        return End(JobState.FAILED, f"{why}; nodes refused {refused} starts in a row", 1, tally=tally_of(gang))
    why = f"{why}; no retry is charged"
    return End(JobState.QUEUED, why, tally=tally_of(gang), refused=refused, resting=tuple(dict(resting).items()))


def _judged(gang: GangView, failures: list[Failure], now_s: float) -> End:
    verdict = attempts.judge(tally_of(gang), failures, budget(gang.spec), began_s=gang.started_s or now_s, now_s=now_s)
    if not verdict.again:
        code, tail = _of(gang, verdict.root)
        return End(JobState.FAILED, verdict.reason, code, tail, verdict.tally)
    bounds, more = None, ""
    if verdict.root.cost == "infra":
        least, most, more = attempts.restart_bounds(
            gang.spec.min_nodes, gang.spec.max_nodes, len(gang.members), shared=gang.shared
        )
        bounds = (least, most)
    reason = f"{verdict.reason}; {more}" if more else verdict.reason
    return End(JobState.QUEUED, reason, tally=verdict.tally, not_before_s=verdict.not_before_s, bounds=bounds)


def _of(gang: GangView, root: Failure) -> tuple[int, tuple[str, ...]]:
    """Return the exit code and the last lines that belong to a root cause: mpirun's head tells of ranks elsewhere."""
    for member in gang.members:
        if member.report is not None and root in _failures(gang, member):
            return member.report.code or 1, member.report.tail
    return 1, ()
