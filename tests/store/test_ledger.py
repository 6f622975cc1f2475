"""The ledger's calls one by one, on a real server."""

from __future__ import annotations

import pytest

from jetq.errors import BrokerDown
from jetq.model.beat import Beat, Metrics
from jetq.model.needs import Needs
from jetq.store import keys
from jetq.store.redis import RedisStore, connect


def test_a_published_job_is_leased_recorded_and_sent_in_one_step(cluster) -> None:
    cluster.node("a")

    placed, _ = cluster.put()

    assert (placed.verdict, placed.state, placed.node) == ("placed", "ASSIGNED", "a")
    assert cluster.length("node.a") == 1
    assert cluster.used("a") == 1


def test_a_job_runs_from_claim_to_settle_and_frees_its_lease(cluster) -> None:
    cluster.node("a")
    _, parcel = cluster.put()

    claim = cluster.claim(parcel, "a")
    assert claim.verdict == "run"
    assert cluster.state(parcel) == "RUNNING"
    assert cluster.store.settle(parcel.job_id, claim.token, "c1", "SUCCEEDED", result="42")

    row = cluster.store.job(parcel.job_id)
    assert row is not None and (row.state, row.result) == ("SUCCEEDED", 42)
    assert cluster.used("a") == 0
    assert cluster.store.settle(parcel.job_id, claim.token, "c1", "SUCCEEDED", result="42"), (
        "a repeat gets the same answer"
    )


def test_a_claim_repeated_by_its_claimer_gets_the_same_token_and_nobody_else_does(cluster) -> None:
    cluster.node("a")
    _, parcel = cluster.put()

    first, again, other = cluster.claim(parcel, "a"), cluster.claim(parcel, "a"), cluster.claim(parcel, "a", "c2")

    assert first.token == again.token
    assert other.verdict == "refused"


def test_a_claim_has_a_token_that_no_claim_of_the_same_pick_had(cluster) -> None:
    cluster.node("a")
    _, parcel = cluster.put()
    (picked,) = cluster.store.held("a")
    record = cluster.store.prefix + f"job:{parcel.job_id}"
    before = cluster.store.client.hgetall(record)
    first = cluster.claim(parcel, "a")

    cluster.store.client.delete(record)  # the server lost that claim, and whatever came of it
    cluster.store.client.hset(record, mapping=before)
    second = cluster.claim(parcel, "a", "c2")

    assert (first.verdict, second.verdict) == ("run", "run")
    assert len({picked.token, first.token, second.token}) == 3


def test_full_nodes_leave_the_job_to_the_shared_queue_and_the_claim_takes_the_lease(cluster) -> None:
    cluster.node("a", 1)
    _, first = cluster.put()
    placed, second = cluster.put()
    assert (placed.state, placed.node) == ("QUEUED", None)
    assert cluster.length("shared:any") == 1

    cluster.store.client.rpop(cluster.store.prefix + keys.with_priority("shared:any", 3))
    assert cluster.claim(second, "a").verdict == "full"
    assert cluster.length("shared:any") == 1, "a refused message is back at the pop end"

    claim = cluster.claim(first, "a")
    cluster.store.settle(first.job_id, claim.token, "c1", "SUCCEEDED")
    assert cluster.claim(second, "a").verdict == "run"
    assert cluster.used("a") == 1


def test_newcomers_do_not_overtake_the_backlog(cluster) -> None:
    cluster.node("a", 1)
    _, first = cluster.put()
    cluster.put()
    claim = cluster.claim(first, "a")
    cluster.store.settle(first.job_id, claim.token, "c1", "SUCCEEDED")

    placed, _ = cluster.put()
    urgent, _ = cluster.put(priority=0)

    assert placed.state == "QUEUED"
    assert (urgent.state, urgent.node) == ("ASSIGNED", "a"), "an urgent job passes a normal backlog"


def test_the_same_id_again(cluster) -> None:
    cluster.node("a")
    _, p = cluster.put("job-1", "body")

    same, _ = cluster.put("job-1", "body")
    other, _ = cluster.put("job-1", "other body")
    assert (same.verdict, same.state) == ("same", "ASSIGNED")
    assert other.verdict == "refused"
    assert cluster.length("node.a") == 1

    claim = cluster.claim(p, "a")
    retried, newer = cluster.put("job-1", "body", generation=1)
    assert (retried.verdict, retried.state) == ("placed", "ASSIGNED")
    assert not cluster.store.settle("job-1", claim.token, "c1", "SUCCEEDED"), "the old generation has lost its token"
    assert cluster.claim(p, "a", "c9").verdict == "refused", "so has its message"

    claim = cluster.claim(newer, "a", "c2")
    cluster.store.settle("job-1", claim.token, "c2", "SUCCEEDED")
    done, _ = cluster.put("job-1", "body", generation=2)
    assert done.verdict == "done"


def test_a_finished_body_is_never_run_again_though_its_owner_dies(cluster) -> None:
    cluster.node("a")
    _, p = cluster.put()
    claim = cluster.claim(p, "a")
    assert cluster.store.finish(p.job_id, claim.token, "c1", '{"value": 7}')

    assert cluster.store.lost(p.job_id, "a", "c1", "SIGKILL") == "ASSIGNED"
    next_claim = cluster.claim(p, "a", "c2")

    assert (next_claim.verdict, next_claim.outcome) == ("finish", '{"value": 7}')
    assert next_claim.token != claim.token
    assert not cluster.store.finish(p.job_id, claim.token, "c1", "{}")


def test_poison_stops_at_the_third_attempt_with_its_history(cluster) -> None:
    cluster.node("a")
    _, p = cluster.put()
    for run in range(3):
        assert cluster.claim(p, "a", f"c{run}").verdict == "run"
        state = cluster.store.lost(p.job_id, "a", f"c{run}", "signal 9")

    row = cluster.store.job(p.job_id)
    assert state == "FAILED" and row is not None
    assert row.attempts == 3 and len(row.history) == 3 and "signal 9" in (row.error or "")
    assert cluster.used("a") == 0


def test_cancel_ends_an_unclaimed_job_at_once_and_a_running_one_when_its_lane_reports(cluster) -> None:
    cluster.node("a")
    _, waiting = cluster.put()
    assert cluster.store.cancel(waiting.job_id, "changed my mind").state == "CANCELLED"
    assert cluster.claim(waiting, "a").verdict == "refused"

    _, running = cluster.put()
    claim = cluster.claim(running, "a")
    assert cluster.store.cancel(running.job_id, "stop").state == "RUNNING"
    assert cluster.beat("a", seq=2).cancel == ("c1",)
    assert cluster.used("a") == 1, "the lease stays until the process is gone"
    assert not cluster.store.settle(running.job_id, claim.token, "c1", "SUCCEEDED")
    assert cluster.state(running) == "CANCELLED"
    assert cluster.used("a") == 0


def test_countdown_waits_in_the_ledger_and_expiry_ends_what_is_late(cluster) -> None:
    cluster.node("a")
    later, p = cluster.put(delay_s=0.0)
    late, q = cluster.put(delay_s=60, expires_s=0.0)
    assert (later.state, late.state) == ("WAITING", "WAITING")

    cluster.store.due()

    assert cluster.state(p) == "ASSIGNED"
    assert cluster.state(q) == "CANCELLED"


def test_a_stopping_node_hands_on_what_it_has_not_started(cluster) -> None:
    cluster.node("a")
    _, p = cluster.put()
    cluster.node("b")
    cluster.beat("a", state="stopping", seq=2)

    assert cluster.store.again("a", cluster.epochs["a"]) == 1

    row = cluster.store.job(p.job_id)
    assert row is not None and row.nodes == ["b"] and row.attempts == 0
    assert cluster.claim(p, "a").verdict == "refused"
    assert cluster.claim(p, "b").verdict == "run"


def test_a_new_epoch_takes_over_and_the_old_one_is_refused(cluster) -> None:
    cluster.node("a")
    _, p = cluster.put()
    cluster.claim(p, "a")
    old = cluster.epochs["a"]

    cluster.node("a")

    assert not cluster.store.beat(Beat("a", old, 9, "up", {}, 0.0, 1.0, 1.0, Metrics())).accepted
    row = cluster.store.job(p.job_id)
    assert row is not None and row.state in ("QUEUED", "ASSIGNED") and row.attempts == 1


def test_labels_gpu_and_memory_decide_who_may_take_a_job(cluster) -> None:
    cluster.node("a", labels=("zone=yard",))
    cluster.node("b", gpu=1)

    yard, _ = cluster.put(needs=Needs(("zone=yard",)))
    gpu, _ = cluster.put(needs=Needs(gpu=1))
    second, _ = cluster.put(needs=Needs(gpu=1))
    nobody, _ = cluster.put(needs=Needs(("zone=moon",)))

    assert (yard.node, gpu.node) == ("a", "b")
    assert second.state == "QUEUED", "a GPU is exclusive"
    assert nobody.verdict == "refused" and "zone=moon" in nobody.why


def test_strategies_share_work_as_they_say(cluster) -> None:
    cluster.node("big", 8)
    cluster.node("small", 4)

    least = [cluster.put(strategy="least_connections")[0].node for _ in range(6)]
    assert least.count("big") == 4 and least.count("small") == 2

    turns = [cluster.put(strategy="round_robin")[0].node for _ in range(4)]
    assert turns.count("big") == 2 and turns.count("small") == 2


def test_a_restored_message_is_put_back_where_its_job_is(cluster) -> None:
    cluster.node("a")
    _, p = cluster.put()
    cluster.store.client.delete(cluster.store.prefix + keys.with_priority("node.a", 3))

    assert cluster.store.put_back(p.job_id, p.pub)

    assert cluster.length("node.a") == 1
    cluster.claim(p, "a")
    assert not cluster.store.put_back(p.job_id, p.pub)


@pytest.mark.parametrize("order", [{}, {"kind": "stream"}], ids=["usual", "another kind"])
def test_what_a_node_holds_is_told_with_its_kind(cluster, order) -> None:
    cluster.node("a")
    _, job = cluster.put(**order)
    cluster.claim(job, "a")

    held = cluster.store.held("a")

    assert [(h.job_id, h.kind, h.state) for h in held] == [(job.job_id, order.get("kind", "task"), "RUNNING")]


@pytest.mark.parametrize("delay_s", [None, 3600.0], ids=["at once", "later"])
def test_a_retry_of_a_cancelled_body_never_runs(cluster, delay_s) -> None:
    cluster.node("a")
    _, job = cluster.put()
    cluster.claim(job, "a")
    cluster.store.cancel(job.job_id, "enough")

    cluster.put(job.job_id, generation=1, delay_s=delay_s)
    cluster.store.due()

    row = cluster.store.job(job.job_id)
    assert (row.state, row.reason) == ("CANCELLED", "enough")
    assert cluster.used("a") == 0
    assert cluster.length("node.a") == 1, "only the message that was claimed"
    assert cluster.beat("a", seq=2).cancel == ()


@pytest.mark.parametrize(
    "question", ["jobs", "nodes", "speeds", "loaded", "queues", "fresh_runs", "due", "untold", "mailboxes"]
)
def test_a_question_to_a_broker_that_is_away_is_one_clear_error(start_broker, question) -> None:
    broker = start_broker()
    store = RedisStore(connect(broker.url), "t")
    getattr(store, question)()
    broker.kill()

    with pytest.raises(BrokerDown, match="is it running"):
        getattr(store, question)()


def test_what_is_learned_is_found_without_looking_at_every_key(cluster) -> None:
    cluster.store.set_speeds("a.task", {"pc": 2.0, "nano": 0.5})

    assert cluster.store.speeds() == {"a.task": {"pc": 2.0, "nano": 0.5}}
