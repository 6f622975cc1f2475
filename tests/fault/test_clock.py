"""The clock of the broker's machine is set while work runs: nobody is dead, nothing is lost, late or early by it."""

from __future__ import annotations

import glob
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

#: Half a century (s).
STEP_S = 50 * 365 * 86400
#: More beats than a node may miss before it is dead.
BEATS = 8
#: How long jobs wait for their time, or may wait at all (s).
WAIT_S = 8


@pytest.fixture
def clock(tmp_path: Path) -> Callable[[int], None]:
    """Give ``clock(s)``: set the broker's clock so far ahead. No other process sees it, and no other kind of time."""
    file = tmp_path / "clock"

    def set_to(ahead_s: int) -> None:
        new = file.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}\n")
        new.rename(file)

    set_to(0)
    return set_to


@pytest.fixture
def redis_url(clock, start_broker, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a broker whose clock can be set."""
    found = sorted(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1"))
    if not found:
        pytest.fail("this test needs libfaketime, which sets the clock of one process: apt install faketime")
    broker = start_broker(
        LD_PRELOAD=found[0],
        FAKETIME_TIMESTAMP_FILE=str(tmp_path / "clock"),
        FAKETIME_NO_CACHE="1",
        DONT_FAKE_MONOTONIC="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )
    left = [Path("/dev/shm", f"{kind}_{broker.pid}") for kind in ("faketime_shm", "sem.faketime_sem")]
    yield broker.url
    for file in left:  # the library leaves them where its process is killed, and stumbles over those of its number
        file.unlink(missing_ok=True)


def beats(ledger) -> dict[str, int]:
    """Return the sequence number of each node's last beat."""
    return {n.name: int(ledger.client.hget(f"{ledger.prefix}node:{n.name}", "seq")) for n in ledger.nodes()}


@pytest.mark.parametrize("step_s", [STEP_S, -STEP_S], ids=["ahead", "back"])
def test_a_broker_whose_clock_is_set_loses_no_node_and_no_job(
    start_node, clock, send, ledger, story, end_of, wait_until, tmp_path, step_s
):
    nodes = [start_node(name, JETQ_DEAD_S="10") for name in "ab"]
    wait_until(lambda: any("leader.elected" in node.log for node in nodes), what="a leader")
    done = tmp_path / "done"
    jobs = [send("fault.wait", str(story), key, str(done)) for key in "pqrs"]
    wait_until(lambda: len(story.told("start")) == 4, what="four bodies")
    jobs += [send("fault.work", str(story), "waits", 0), send("fault.work", str(story), "patient", 0, expires=600)]
    sent_s = time.monotonic()
    late = send("fault.work", str(story), "late", 0, expires=WAIT_S)
    later = send("fault.work", str(story), "later", 0, countdown=WAIT_S)

    clock(step_s)

    end = {name: seq + BEATS for name, seq in beats(ledger).items()}
    while any(seq < end[name] for name, seq in beats(ledger).items()):
        assert {node.state for node in ledger.nodes()} <= {"up", "stale"}, "stale: no beat since the clock was set"
        assert sum(node.used for node in ledger.nodes()) == 4, "no lease is lost"
        states = {ledger.job(job).state for job in (late, later)}
        assert time.monotonic() - sent_s >= WAIT_S or states == {"QUEUED", "WAITING"}, "neither comes early"
    assert end_of(late)[0].reason == "expired before a node was free"
    done.touch()
    rows = end_of(*jobs, later)

    assert {(row.state, row.attempts) for row in rows} == {("SUCCEEDED", 0)}
    assert story.told("start") == story.told("end") == Counter([*"pqrs", "waits", "patient", "later"])
    log = "".join(node.log for node in nodes)
    assert "clock.set" in log
    assert not [word for word in ("node.suspect", "node.dead", "job.healed", "loop.failed") if word in log]
