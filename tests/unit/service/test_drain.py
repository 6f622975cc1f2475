"""How an agent follows a drain that stands in the ledger."""

from __future__ import annotations

from jetq.model.beat import BeatReply
from jetq.service.drain import Drain


class Evictions:
    """The one call that a drain makes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def evict(self, node: str, epoch: str, why: str) -> int:
        self.calls.append((node, why))
        return 1


def reply(drain_s: float | None, used: float = 1.0) -> BeatReply:
    return BeatReply(True, used_slots=used, drain_s=drain_s)


def test_what_runs_has_the_grace_and_is_then_asked_to_leave() -> None:
    now, ledger = [0.0], Evictions()
    drain = Drain(ledger, "a", "e", clock=lambda: now[0])
    drain.follow(reply(None))
    assert not drain.is_on

    drain.follow(reply(10.0))
    now[0] = 9.9
    drain.follow(reply(10.0))
    assert (drain.is_on, ledger.calls) == (True, [])

    now[0] = 10.0
    drain.follow(reply(10.0))
    assert ledger.calls == [("a", "its node was drained")]


def test_an_empty_node_asks_nobody_to_leave() -> None:
    ledger = Evictions()
    drain = Drain(ledger, "a", "e", clock=lambda: 0.0)

    drain.follow(reply(0.0, used=0.0))

    assert (drain.is_on, ledger.calls) == (True, [])


def test_after_a_resume_the_next_drain_has_its_whole_grace() -> None:
    now, ledger = [0.0], Evictions()
    drain = Drain(ledger, "a", "e", clock=lambda: now[0])
    drain.follow(reply(5.0))
    drain.follow(reply(None))
    assert not drain.is_on

    now[0] = 60.0
    drain.follow(reply(5.0))

    assert ledger.calls == []
