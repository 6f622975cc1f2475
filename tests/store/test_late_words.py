"""Words that come late, twice or after a fault: none of them harms what holds now. Call by call, on a real server."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.model.needs import Needs
from jetq.model.survey import Judgement, Verdict


def led(cluster) -> tuple[str, int]:
    """Make somebody the leader; returns its epoch and term."""
    epoch = ids.random64()
    return epoch, cluster.store.lead("lead", epoch, lease_s=60).term


def test_a_message_is_found_missing_behind_jobs_that_wait_for_a_node_that_never_comes(cluster) -> None:
    for _ in range(12):
        cluster.put(needs=Needs(("zone=nowhere",)), wait_for_node=True)
    _, job = cluster.put()
    lead = led(cluster)
    assert len(cluster.store.survey(*lead, oldest=5, part=0, size=9).waiting) == 10, "all messages lie in their lists"

    cluster.pop("shared:any")

    found = {x for part in range(2) for x, _ in cluster.store.survey(*lead, oldest=5, part=part, size=7).waiting}
    assert job.job_id in found


@pytest.mark.parametrize("how", ["ends", "retries"])
def test_who_was_to_leave_and_ended_by_itself_is_not_asked_again(cluster, how) -> None:
    cluster.node("a")
    _, job = cluster.put()
    token = cluster.claim(job, "a").token
    cluster.store.drain("a", "new kernel", grace_s=0)
    cluster.store.evict("a", cluster.epochs["a"], "its node was drained")

    if how == "ends":
        assert cluster.store.settle(job.job_id, token, "c1", "SUCCEEDED")
    else:
        cluster.put(job.job_id, generation=1)

    cluster.store.resume("a")
    assert cluster.beat("a", seq=2).cancel == ()


def test_a_job_that_comes_back_is_not_killed_for_what_was_asked_of_its_run_before(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    cluster.claim(job, "a", "c1")
    cluster.store.drain("a", "new kernel", grace_s=0)
    cluster.store.evict("a", cluster.epochs["a"], "its node was drained")
    late = cluster.beat("a", seq=2).cancel
    cluster.store.lost(job.job_id, "a", "c1", "signal 15")
    cluster.store.resume("a")
    cluster.beat("a", seq=3)

    assert cluster.claim(job, "a", "c2").verdict == "run"

    assert late == ("c1",), "an answer that is under way names the claim, not the job"
    assert cluster.beat("a", seq=4).cancel == ()


def test_a_node_that_may_work_again_evicts_nobody(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    cluster.claim(job, "a")
    cluster.store.drain("a", "new kernel", grace_s=0)
    cluster.store.resume("a")

    assert cluster.store.evict("a", cluster.epochs["a"], "its node was drained") == 0

    assert cluster.beat("a", seq=2).cancel == ()


def test_a_node_that_was_silent_drains_for_the_reason_it_was_given(cluster) -> None:
    cluster.node("a")
    cluster.store.drain("a", "new kernel", grace_s=30)
    cluster.store.judge(*led(cluster), Judgement("a", cluster.epochs["a"], 1, "suspect", "it was not heard of"))
    assert [(n.state, n.why) for n in cluster.store.nodes()] == [("suspect", "it was not heard of")]

    cluster.beat("a", seq=2)

    assert [(n.state, n.why) for n in cluster.store.nodes()] == [("drained", "new kernel")]


def test_a_run_that_loads_other_tasks_is_still_asked_to_kill_and_its_beats_count_on(cluster) -> None:
    cluster.node("a")
    cluster.beat("a", seq=7)
    _, job = cluster.put()
    cluster.claim(job, "a")
    cluster.store.cancel(job.job_id, "no longer needed")

    cluster.node("a", how="again")

    assert cluster.store.survey(*led(cluster), oldest=5).nodes[0].seq == 7
    assert cluster.beat("a", seq=8).cancel == ("c1",)


def test_a_run_that_was_replaced_takes_nothing_from_the_next(cluster) -> None:
    cluster.node("a")
    old = cluster.epochs["a"]
    cluster.node("a")
    _, job = cluster.put()
    cluster.claim(job, "a")

    assert cluster.store.lost(job.job_id, "a", None, "its lane died", epoch=old) == ""
    assert cluster.store.lost(job.job_id, "a", None, "its lane died", epoch=cluster.epochs["a"]) == "ASSIGNED"


def test_a_job_whose_message_is_gone_ends_and_holds_up_nobody(cluster) -> None:
    cluster.node("a")
    jobs = [cluster.put()[1] for _ in range(2)]
    tokens = [cluster.claim(job, "a").token for job in jobs]
    cluster.store.client.delete(f"{cluster.store.prefix}msg:{jobs[0].job_id}")

    verdicts = [Verdict(job.job_id, token, "lost", "a", "why") for job, token in zip(jobs, tokens, strict=True)]
    assert cluster.store.heal(*led(cluster), verdicts) == ["FAILED", "ASSIGNED"]

    assert cluster.used("a") == 1
    assert "its message is gone" in cluster.store.job(jobs[0].job_id).error


def test_telling_of_a_job_that_has_not_ended_takes_nothing_from_it(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()

    cluster.store.told(job.job_id)

    assert cluster.store.client.exists(f"{cluster.store.prefix}msg:{job.job_id}")


def test_a_body_that_has_ended_keeps_its_outcome_whatever_becomes_of_its_child(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    for _ in range(2):
        cluster.claim(job, "a")
        cluster.store.lost(job.job_id, "a", "c1", "signal 9")
    token = cluster.claim(job, "a").token
    assert cluster.store.finish(job.job_id, token, "c1", '{"value": 1}')

    assert cluster.store.lost(job.job_id, "a", "c1", "hard time limit of 1 s exceeded", then="fail") == "ASSIGNED"

    again = cluster.claim(job, "a")
    assert (again.verdict, again.outcome) == ("finish", '{"value": 1}')


def test_what_follows_a_body_cannot_kill_its_child_for_ever(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    states = []
    while "FAILED" not in states:
        token = cluster.claim(job, "a").token
        cluster.store.finish(job.job_id, token, "c1", '{"value": 1}')
        states.append(cluster.store.lost(job.job_id, "a", "c1", "signal 9"))

    assert states == ["ASSIGNED"] * 5 + ["FAILED"]


def test_a_job_that_is_lost_still_expires(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put(expires_s=0.3)
    cluster.claim(job, "a")
    cluster.store.lost(job.job_id, "a", "c1", "signal 9")

    assert cluster.store.client.zscore(f"{cluster.store.prefix}expiry", job.job_id)


def test_the_time_at_which_a_claimed_job_expires_follows_a_clock_that_is_set(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put(expires_s=100)
    cluster.claim(job, "a")
    expires = float(cluster.store.client.hget(f"{cluster.store.prefix}job:{job.job_id}", "expires"))

    cluster.store.shift(*led(cluster), -5000)
    cluster.store.lost(job.job_id, "a", "c1", "signal 9")

    at = cluster.store.client.zscore(f"{cluster.store.prefix}expiry", job.job_id)
    assert at == pytest.approx(expires - 5000, abs=0.01)


def test_a_due_job_whose_message_is_gone_ends_and_holds_up_nobody(cluster) -> None:
    cluster.node("a")
    (_, lost), (_, good) = cluster.put(delay_s=0.0), cluster.put(delay_s=0.0)
    cluster.store.client.delete(f"{cluster.store.prefix}msg:{lost.job_id}")

    cluster.store.due()

    row = cluster.store.job(lost.job_id)
    assert (row.state, row.error) == ("FAILED", "its message is gone from the ledger: it was due")
    assert cluster.state(good) == "ASSIGNED"


def test_a_shared_job_whose_message_is_gone_ends_and_the_next_is_healed(cluster) -> None:
    jobs = [cluster.put()[1] for _ in range(2)]
    lead = led(cluster)
    waiting = dict(cluster.store.survey(*lead, oldest=5, part=0, size=5).waiting)
    for _ in jobs:
        cluster.pop("shared:any")
    cluster.store.client.delete(f"{cluster.store.prefix}msg:{jobs[0].job_id}")

    verdicts = [Verdict(job.job_id, waiting[job.job_id], "push", "", "its message was lost") for job in jobs]
    assert cluster.store.heal(*lead, verdicts) == ["FAILED", "QUEUED"]
    assert cluster.length("shared:any") == 1
