"""How long to wait after the first, second, third failure. Pure: doubled each time, up to a cap."""

from __future__ import annotations

from dataclasses import dataclass

#: A node that refused a gang gets none for this long (s), then twice as long, up to the second.
REST_S, LONGEST_REST_S = 10.0, 300.0
#: A refusal this long (s) after the last rest ended is a new first one.
FORGET_S = 600.0
#: Doubling ends here: the cap has long been reached.
_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Rest:
    """A node that refused to take part in a gang is left alone for a while; tasks go on there."""

    refusals: int
    until_s: float
    why: str


def pause_s(failures: int, *, first_s: float, most_s: float) -> float:
    """Return the wait after so many failures in a row: ``first_s`` after the first, ``most_s`` at most."""
    if failures < 1:
        return 0.0
    return min(most_s, first_s * 2.0 ** min(failures - 1, _DOUBLINGS))


def refused(before: Rest | None, now_s: float, why: str) -> Rest:
    """Return the rest of a node that refused now. Drop it (``None``) once the node took part in a gang that ran."""
    again = before is not None and now_s - before.until_s < FORGET_S
    refusals = before.refusals + 1 if before is not None and again else 1
    return Rest(refusals, now_s + pause_s(refusals, first_s=REST_S, most_s=LONGEST_REST_S), why)
