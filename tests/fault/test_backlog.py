"""A backlog with all priorities: every place that counts it gives the whole sum, and it is worked off in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from jetq.store import keys

#: How many jobs wait at each priority of kombu's: urgent, normal, low.
WAITING = {0: 4, 3: 3, 6: 2}
#: Their sum.
ALL = sum(WAITING.values())


def test_a_backlog_with_priorities_is_counted_whole_and_worked_off_in_order(
    start_node, redis_url, jetq, send, ledger, story, end_of, wait_until, tmp_path
):
    start_node("a", "--slots", "1")
    done = tmp_path / "done"
    holder = send("fault.wait", str(story), "holder", str(done))
    wait_until(lambda: story.told("start") == {"holder": 1}, what="a full node")
    jobs = [
        send("fault.work", str(story), f"{step}.{number}", 0, priority=step)
        for step in reversed(WAITING)
        for number in range(WAITING[step])
    ]

    explained = subprocess.run(
        [sys.executable, "-m", "jetq", "route", "fault.work", "--explain"],
        env={**os.environ, "JETQ_BROKER_URL": redis_url},
        capture_output=True,
        text=True,
        check=True,
    )
    queued = json.loads(jetq("job", "list", "--state", "QUEUED", "--json").stdout)
    stats = ledger.queues()

    assert f"{ALL} jobs wait in the shared queue 'any'" in explained.stderr
    assert {row["id"] for row in queued} == set(jobs)
    assert (stats[keys.shared_queue("any")], sum(stats.values())) == (ALL, ALL)
    assert ledger.nodes()[0].used == 1, "what waits takes no room"

    done.touch()
    end_of(holder, *jobs)
    order = [words[0] for words in story.lines("start")]
    assert order == ["holder", *(f"{step}.{number}" for step in WAITING for number in range(WAITING[step]))]
    assert not any(ledger.queues().values())
